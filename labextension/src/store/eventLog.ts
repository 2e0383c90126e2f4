import { EventRow } from '../protocol/messages';

/** So many events are kept on the page; the kernel holds as many. */
export const MOST_EVENTS = 100_000;

// The oldest go in lots, so that not each push moves all others.
const SLACK = 5_000;

/**
 * The events that the page has, oldest first, without a gap between them.
 *
 * `epoch` changes when anything happens to `rows` but an append, so that whoever derives a list from them
 * (filtered, drawn) can go on where it was.
 */
export class EventLog {
  constructor(private readonly limit = MOST_EVENTS) {}

  rows: EventRow[] = [];
  epoch = 0;
  /** How many the kernel holds. */
  total = 0;

  /** Whether the kernel holds older ones that there is room for. */
  get hasOlder(): boolean {
    return this.rows.length < Math.min(this.total, this.limit);
  }

  /** Take a snapshot's events, and keep older ones if they are of the same log and no event is between. */
  reset(events: EventRow[]): void {
    const known = new Map(this.rows.slice(-SLACK).map(row => [row.seq, row]));
    const joins = events.some(
      row => known.get(row.seq)?.time_ms === row.time_ms
    );
    if (!joins) {
      this.rows = [];
      this.epoch += 1;
    }
    this.append(events);
  }

  append(events: EventRow[]): void {
    const last = this.rows.length ? this.rows[this.rows.length - 1].seq : -1;
    for (const row of events) {
      if (row.seq > last) {
        this.rows.push(row);
      }
    }
    if (this.rows.length > this.limit + SLACK) {
      this.rows = this.rows.slice(-this.limit);
      this.epoch += 1;
    }
  }

  prepend(events: EventRow[]): void {
    const first = this.rows.length ? this.rows[0].seq : Infinity;
    const older = events.filter(row => row.seq < first);
    this.rows = [...older, ...this.rows].slice(-this.limit);
    this.epoch += 1;
  }

  clear(): void {
    this.rows = [];
    this.total = 0;
    this.epoch += 1;
  }
}
