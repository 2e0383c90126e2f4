export interface Runs {
  readonly time_ms: number;
  readonly count: number;
}

// About half an hour of runs at ten pushes a second; then neighbours become one, again and again.
const MOST_ROWS = 20_000;

/**
 * How many times graphs were run, and when this page heard of it, oldest first.
 *
 * A run is no event, because there may be thousands a second: the kernel counts them and tells the counts. While
 * the page is looked at it hears of them at once.
 */
export class RunLog {
  rows: Runs[] = [];

  add(time_ms: number, count: number): void {
    if (count === 0) {
      return;
    }
    if (this.rows.length >= MOST_ROWS) {
      this.rows = inPairs(this.rows);
    }
    this.rows.push({ time_ms, count });
  }

  clear(): void {
    this.rows = [];
  }
}

function inPairs(rows: readonly Runs[]): Runs[] {
  const pairs: Runs[] = [];
  for (let at = 1; at < rows.length; at += 2) {
    const count = rows[at - 1].count + rows[at].count;
    pairs.push({ time_ms: rows[at].time_ms, count });
  }
  return pairs;
}
