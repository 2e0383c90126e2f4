import { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { EventRow } from '../../protocol/messages';
import { Runs } from '../../store/runLog';
import { useEnv } from '../env';
import { clockText, countText } from '../format';
import { LANES } from '../kinds';
import { binEvents, Bins, nearest } from './timelineBins';

const COLUMNS = 240;
const LANE_HEIGHT = 12;
// People see no more, and a hundred thousand events are not counted in no time.
const RENEWED_EVERY_MS = 500;

/** Lanes over time; a click goes to the event that is nearest to that time. */
export function Timeline(props: {
  rows: readonly EventRow[];
  runs: readonly Runs[];
  onPick: (row: EventRow) => void;
}): JSX.Element {
  const { t } = useEnv();
  const bins = useBins(props.rows, props.runs);
  const lanes = LANES.filter(lane =>
    bins.counts[lane].some(count => count > 0)
  );
  const height = lanes.length * LANE_HEIGHT;
  const totals = lanes.map(
    lane =>
      `${t(lane)} ${countText(bins.counts[lane].reduce((a, b) => a + b, 0))}`
  );
  const onClick = (event: MouseEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const time = bins.fromMs + share * (bins.toMs - bins.fromMs);
    props.onPick(props.rows[nearest(props.rows, time)]);
  };
  return (
    <div
      class="xn-timeline"
      role="img"
      aria-label={t(
        'From %1 to %2: %3',
        clockText(bins.fromMs),
        clockText(bins.toMs),
        totals.join(', ')
      )}
    >
      <div class="xn-lanes" aria-hidden="true">
        {lanes.map(lane => (
          <span
            key={lane}
            class={`xn-lane-name xn-lane-${lane}`}
            title={
              lane === 'runs'
                ? t('Runs of graphs, when this view heard of them')
                : undefined
            }
          >
            {t(lane)}
          </span>
        ))}
      </div>
      <svg
        viewBox={`0 0 ${COLUMNS} ${height}`}
        height={height}
        preserveAspectRatio="none"
        onClick={onClick}
      >
        {lanes.map((lane, index) => (
          <path
            key={lane}
            class={`xn-lane-${lane}`}
            d={lanePath(bins.counts[lane], index * LANE_HEIGHT)}
          />
        ))}
      </svg>
      <div class="xn-axis" aria-hidden="true">
        <span>{clockText(bins.fromMs)}</span>
        <span>{clockText(bins.toMs)}</span>
      </div>
    </div>
  );
}

/** A bar for each column with events: the more, the higher, and the lowest is well visible. */
function lanePath(counts: Uint32Array, top: number): string {
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const room = LANE_HEIGHT - 2;
  let path = '';
  counts.forEach((count, column) => {
    if (count > 0) {
      const size = Math.round(
        room * (0.4 + (0.6 * Math.log1p(count)) / Math.log1p(most))
      );
      path += `M${column} ${top + LANE_HEIGHT - 1}v-${size}h1v${size}z`;
    }
  });
  return path;
}

/** The bins of two lists that grow: of others at once, of more in the same ones after a while. */
function useBins(rows: readonly EventRow[], runs: readonly Runs[]): Bins {
  const last = useRef<{
    bins: Bins;
    atMs: number;
    rows: unknown;
    length: number;
  } | null>(null);
  const [, draw] = useState({});
  const length = rows.length + runs.length;
  const known = last.current;
  const growth = known?.rows === rows ? length - known.length : -1;
  const waits =
    growth > 0 && known !== null && Date.now() - known.atMs < RENEWED_EVERY_MS;
  useEffect(() => {
    // The last ones of a burst are not followed by others that would show them.
    const timer = waits
      ? setTimeout(() => draw({}), RENEWED_EVERY_MS)
      : undefined;
    return () => clearTimeout(timer);
  });
  if (known && (growth === 0 || waits)) {
    return known.bins;
  }
  const bins = binEvents(rows, runs, COLUMNS);
  last.current = { bins, atMs: Date.now(), rows, length };
  return bins;
}
