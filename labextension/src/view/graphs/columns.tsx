import { Graph } from '../../protocol/messages';
import { Translate } from '../env';
import {
  durationText,
  bytesText,
  countText,
  naturalKey,
  shortHash
} from '../format';
import { Column } from '../grid/grid';
import { GRAPH_STATES, REASONS } from '../kinds';
import { PlaceLink } from '../parts';

/** Why a graph was compiled: the first cause, or the reason of its trace. */
export function whyText(graph: Graph, t: Translate): string {
  return graph.causes.length ? graph.causes[0].what : t(REASONS[graph.reason]);
}

export function graphColumns(t: Translate): Column<Graph>[] {
  return [
    {
      id: 'name',
      title: t('name'),
      width: 'minmax(7em, 1.4fr)',
      sort: graph => naturalKey(graph.name),
      cell: graph => <b>{graph.name}</b>
    },
    {
      id: 'time',
      title: t('where'),
      width: 'minmax(7em, 1fr)',
      from: 440,
      sort: graph => graph.time_ms,
      cell: graph => <PlaceLink place={graph.place} cell={graph.cell} inRow />
    },
    {
      id: 'hash',
      title: t('hash'),
      width: '6em',
      from: 900,
      sort: graph => graph.hash,
      cell: graph => <code>{shortHash(graph.hash)}</code>
    },
    {
      id: 'inputs',
      title: t('inputs'),
      width: 'minmax(6em, 1.4fr)',
      from: 760,
      sort: graph => graph.input_count,
      cell: graph => <span title={graph.inputs}>{graph.inputs}</span>
    },
    {
      id: 'why',
      title: t('why compiled'),
      width: 'minmax(7em, 1.6fr)',
      from: 600,
      sort: graph => whyText(graph, t),
      cell: graph => <span title={whyText(graph, t)}>{whyText(graph, t)}</span>
    },
    {
      id: 'trace',
      title: t('trace'),
      width: '6em',
      from: 1000,
      right: true,
      sort: graph => graph.trace_ns,
      cell: graph => durationText(graph.trace_ns)
    },
    {
      id: 'compile',
      title: t('compile'),
      width: '6em',
      from: 520,
      right: true,
      sort: graph => graph.compile_ns,
      cell: graph => (graph.compiled ? durationText(graph.compile_ns) : '–')
    },
    {
      id: 'runs',
      title: t('runs'),
      width: '4.5em',
      right: true,
      sort: graph => graph.runs,
      cell: graph => countText(graph.runs)
    },
    {
      id: 'run',
      title: t('mean run'),
      width: '5.5em',
      from: 840,
      right: true,
      sort: graph => graph.run_ns ?? -1,
      cell: graph => (graph.run_ns === null ? '–' : durationText(graph.run_ns))
    },
    {
      id: 'saved',
      title: t('saved'),
      width: '5.5em',
      from: 380,
      right: true,
      sort: graph => graph.saved_nbytes,
      cell: graph => bytesText(graph.saved_nbytes)
    },
    {
      id: 'state',
      title: t('state'),
      width: '5.5em',
      sort: graph => graph.state,
      cell: graph => (
        <span
          class={`xn-state xn-is-${graph.state}`}
          title={t(GRAPH_STATES[graph.state])}
        >
          {graph.state}
        </span>
      )
    }
  ];
}
