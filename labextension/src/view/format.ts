/** Numbers in the units in which people read them. */

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `512 B`, `1.5 KiB`, `64 MiB`: three digits at most. */
export function bytesText(nbytes: number): string {
  let size = nbytes;
  let unit = 0;
  while (size >= 999.5 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 99.95 ? 0 : 1;
  return `${size.toFixed(digits).replace(/\.0$/, '')} ${BYTE_UNITS[unit]}`;
}

/** `850 µs`, `12.3 ms`, `1.90 s`. */
export function durationText(ns: number): string {
  if (ns < 999_500) {
    return `${(ns / 1e3).toFixed(0)} µs`;
  }
  if (ns < 999_950_000) {
    return `${(ns / 1e6).toFixed(1)} ms`;
  }
  return `${(ns / 1e9).toFixed(2)} s`;
}

/** `16x8` for a matrix, `scalar` without dimensions. */
export function shapeText(shape: readonly number[]): string {
  return shape.join('x') || 'scalar';
}

/** A handle is XLA's number of a buffer; it is read in hexadecimal, as in `%xla_buffers`. */
export function handleText(handle: number | null): string {
  return handle === null ? '' : handle.toString(16);
}

export function shortHash(hash: string): string {
  return hash.slice(0, 8);
}

/** `1,234`. */
export function countText(count: number): string {
  return count.toLocaleString('en-US');
}

/** The time of day with milliseconds, in the reader's time zone: `14:03:07.042`. */
export function clockText(timeMs: number): string {
  const date = new Date(timeMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  const millis = String(date.getMilliseconds()).padStart(3, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${millis}`;
}

/** A key by which `layer 2` comes before `layer 10`. */
export function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, digits => digits.padStart(12, '0'));
}
