import { EventRow } from '../../protocol/messages';
import { Runs } from '../../store/runLog';
import { Lane, LANE_OF, LANES } from '../kinds';

export interface Bins {
  fromMs: number;
  toMs: number;
  /** How many there are in each of `columns` equal parts of the time, per lane. */
  counts: Record<Lane, Uint32Array>;
}

/** The events, and the runs since the first of them, by lane and time. */
export function binEvents(
  rows: readonly EventRow[],
  runs: readonly Runs[],
  columns: number
): Bins {
  const counts = Object.fromEntries(
    LANES.map(lane => [lane, new Uint32Array(columns)])
  ) as Record<Lane, Uint32Array>;
  // Events come in the order in which they were told; a trace has the time of its begin.
  let fromMs = Infinity;
  let toMs = runs.length ? runs[runs.length - 1].time_ms : -Infinity;
  for (const { time_ms } of rows) {
    fromMs = Math.min(fromMs, time_ms);
    toMs = Math.max(toMs, time_ms);
  }
  const scale = (columns - 1) / Math.max(1, toMs - fromMs);
  for (const row of rows) {
    counts[LANE_OF[row.kind]][Math.round((row.time_ms - fromMs) * scale)] += 1;
  }
  for (const { time_ms, count } of runs) {
    if (time_ms >= fromMs) {
      counts.runs[Math.round((time_ms - fromMs) * scale)] += count;
    }
  }
  return { fromMs, toMs, counts };
}

/** The index of the row that is nearest to a time in a list that is (nearly) in order. */
export function nearest(rows: readonly EventRow[], timeMs: number): number {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].time_ms < timeMs) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
