import { EventRow } from '../../protocol/messages';
import { EventLog } from '../../store/eventLog';
import { EventKind } from '../kinds';

export interface EventFilter {
  text: string;
  kind: EventKind | 'danger' | 'all';
}

/** The events that fit a filter, oldest first. Of a log that only grew just the new ones are looked at. */
export class FilteredLog {
  private kept: EventRow[] = [];
  private seen = 0;
  private key = '';

  /** The same array, longer, until the filter or the log's past changes. */
  update(log: EventLog, filter: EventFilter): readonly EventRow[] {
    const key = `${log.epoch} ${filter.kind} ${filter.text}`;
    if (key !== this.key) {
      this.key = key;
      this.seen = 0;
      this.kept = [];
    }
    const fits = eventFilter(filter);
    for (; this.seen < log.rows.length; this.seen += 1) {
      const row = log.rows[this.seen];
      if (fits(row)) {
        this.kept.push(row);
      }
    }
    return this.kept;
  }
}

function eventFilter({ text, kind }: EventFilter): (row: EventRow) => boolean {
  const needle = text.toLowerCase();
  return row =>
    (kind === 'all' ||
      (kind === 'danger'
        ? row.kind === 'hazard' || row.kind === 'donation'
        : row.kind === kind)) &&
    (!needle ||
      row.text.toLowerCase().includes(needle) ||
      (row.place?.text.toLowerCase().includes(needle) ?? false));
}
