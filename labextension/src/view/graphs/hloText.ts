/** Pure functions on HLO text. */

export interface HloLine {
  /** The line without its metadata. */
  text: string;
  /** The line of the user's code that it comes from, where the metadata says so. */
  source: { filename: string; line: number } | null;
}

const METADATA = /, metadata=\{([^}]*)\}/;

export function hloLines(text: string): HloLine[] {
  return text.split('\n').map(line => {
    const metadata = METADATA.exec(line)?.[1] ?? '';
    const filename = /source_file="([^"]*)"/.exec(metadata)?.[1];
    const number = /source_line=(\d+)/.exec(metadata)?.[1];
    return {
      text: line.replace(METADATA, ''),
      source:
        filename !== undefined && number !== undefined
          ? { filename, line: Number(number) }
          : null
    };
  });
}

/** The numbers of the lines that hold `needle`, in small or capital letters. */
export function findLines(lines: readonly HloLine[], needle: string): number[] {
  const wanted = needle.toLowerCase();
  return wanted
    ? lines.flatMap((line, index) =>
        line.text.toLowerCase().includes(wanted) ? [index] : []
      )
    : [];
}

/** `text` in three: before the first `needle`, it, and after. */
export function splitAt(
  text: string,
  needle: string
): [string, string, string] {
  const at = needle ? text.toLowerCase().indexOf(needle.toLowerCase()) : -1;
  return at < 0
    ? [text, '', '']
    : [
        text.slice(0, at),
        text.slice(at, at + needle.length),
        text.slice(at + needle.length)
      ];
}
