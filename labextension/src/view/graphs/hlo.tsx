import { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Graph, Hlo, Place } from '../../protocol/messages';
import { useEnv } from '../env';
import { Lines } from '../lines';
import { TextFilter, PlaceLink } from '../parts';
import { findLines, HloLine, hloLines, splitAt } from './hloText';

/** A graph's HLO with search, and with links to the user's lines. */
export function HloText({
  hlo,
  graph
}: {
  hlo: Hlo;
  graph: Graph;
}): JSX.Element {
  const { t } = useEnv();
  const [needle, setNeedle] = useState('');
  const [at, setAt] = useState(0);
  const lines = useMemo(() => hloLines(hlo.text), [hlo.text]);
  const found = useMemo(() => findLines(lines, needle), [lines, needle]);
  const step = (by: number): void =>
    setAt((at + by + found.length) % Math.max(1, found.length));
  const current = found.length ? found[at] : undefined;
  const ops = Object.entries(hlo.ops).sort((a, b) => b[1] - a[1]);
  return (
    <>
      <p class="xn-ops">
        {ops.map(([op, count]) => (
          <span key={op}>
            <code>{op}</code> {count}
          </span>
        ))}
      </p>
      <div
        class="xn-tools"
        onKeyDown={event => {
          if (
            event.key === 'Enter' &&
            event.target instanceof HTMLInputElement
          ) {
            step(event.shiftKey ? -1 : 1);
          }
        }}
      >
        <TextFilter
          label={t('Search in HLO')}
          value={needle}
          onChange={text => {
            setNeedle(text);
            setAt(0);
          }}
        />
        <span class="xn-note" role="status">
          {needle &&
            (found.length ? t('%1 of %2', at + 1, found.length) : t('none'))}
        </span>
        <button
          type="button"
          class="xn-button"
          disabled={found.length < 2}
          aria-label={t('Previous')}
          onClick={() => step(-1)}
        >
          ▴
        </button>
        <button
          type="button"
          class="xn-button"
          disabled={found.length < 2}
          aria-label={t('Next')}
          onClick={() => step(1)}
        >
          ▾
        </button>
      </div>
      <Lines
        label={t('HLO of %1', graph.name)}
        count={lines.length}
        reveal={current}
        lineClass={index => (index === current ? 'xn-current' : '')}
        line={index => (
          <Line line={lines[index]} needle={needle} graph={graph} />
        )}
      />
    </>
  );
}

function Line(props: {
  line: HloLine;
  needle: string;
  graph: Graph;
}): JSX.Element {
  const { line, needle, graph } = props;
  const { t } = useEnv();
  const [before, match, after] = splitAt(line.text, needle);
  const place = line.source && placeOf(line.source, graph, t);
  return (
    <>
      <span class="xn-gutter">
        {place && <PlaceLink place={place} cell={place.cell} />}
      </span>
      {before}
      {match && <mark>{match}</mark>}
      {after}
    </>
  );
}

/** A line of HLO names a file; which cell that is, is known for the file that the graph itself is from. */
function placeOf(
  source: { filename: string; line: number },
  graph: Graph,
  t: ReturnType<typeof useEnv>['t']
): Place {
  const own = graph.place?.filename === source.filename ? graph.place : null;
  const file = source.filename.replace(/^.*[\\/]/, '');
  return {
    ...source,
    text: own?.cell ? t('line %1', source.line) : `${file}:${source.line}`,
    cell: own?.cell ?? null
  };
}
