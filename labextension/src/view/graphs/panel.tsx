import { JSX } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import { Graph } from '../../protocol/messages';
import { useEnv } from '../env';
import { bytesText, durationText } from '../format';
import { Grid } from '../grid/grid';
import { SortedRows } from '../grid/sortedRows';
import { COMPILE_MAGIC, GRAPH_STATES, GraphState } from '../kinds';
import { Choice, Empty, TextFilter } from '../parts';
import { graphColumns, whyText } from './columns';
import { GraphDetails } from './details';
import { isOfCell } from './facts';

export function GraphsPanel(): JSX.Element {
  const { client, view, t } = useEnv();
  const { graphs, versions } = client.model;
  const chosen = view.state.graphs;
  const columns = useMemo(() => graphColumns(t), [t]);
  const sorted = useRef(new SortedRows<number, Graph>(row => row.graph_id));
  const order =
    columns.find(column => column.id === chosen.sort.column) ?? columns[0];
  const needle = chosen.text.toLowerCase();
  const rows = sorted.current.update(graphs, versions.graphs, {
    id: JSON.stringify(chosen),
    sortKey: order.sort ?? (graph => graph.time_ms),
    descending: chosen.sort.descending,
    shows: graph =>
      stateFits(graph, chosen.state) &&
      (!chosen.cell || isOfCell(graph, chosen.cell)) &&
      (!needle ||
        `${graph.name} ${graph.hash} ${graph.place?.text ?? ''} ${graph.inputs} ${whyText(graph, t)}`
          .toLowerCase()
          .includes(needle))
  });
  const opened =
    view.state.graphId === null ? undefined : graphs.get(view.state.graphId);
  const close = (): void => view.set({ graphId: null });
  return (
    <div class="xn-split">
      <div class="xn-list">
        <div class="xn-tools">
          <TextFilter
            label={t('Filter graphs')}
            value={chosen.text}
            onChange={text => view.set({ graphs: { ...chosen, text } })}
          />
          <Choice
            label={t('State')}
            value={chosen.state}
            choices={[
              ['cached', t('cached')],
              ['all', t('all states')],
              ...Object.keys(GRAPH_STATES).map(state => [state, state] as const)
            ]}
            onChange={state =>
              view.set({
                graphs: { ...chosen, state: state as typeof chosen.state }
              })
            }
          />
          {chosen.cell && (
            <button
              type="button"
              class="xn-button"
              title={t('Show the graphs of all cells')}
              onClick={() => view.set({ graphs: { ...chosen, cell: null } })}
            >
              {t('only cell %1', chosen.cell.execution_count)}{' '}
              <span aria-hidden="true">✕</span>
            </button>
          )}
        </div>
        {graphs.size === 0 ? (
          <Empty>
            {t('No graphs yet: run a cell with %1.', COMPILE_MAGIC)}
          </Empty>
        ) : rows.length === 0 ? (
          <Empty>
            {t.plural(
              'The only graph does not fit the filter.',
              'None of the %1 graphs fits the filter.',
              graphs.size
            )}
          </Empty>
        ) : (
          <Grid
            label={t('Graphs')}
            columns={columns}
            rows={rows}
            rowKey={graph => graph.graph_id}
            sort={chosen.sort}
            onSort={sort => view.set({ graphs: { ...chosen, sort } })}
            selected={view.state.graphId}
            reveal={view.state.graphId}
            onOpen={graph => view.set({ graphId: graph.graph_id })}
            onEscape={close}
          />
        )}
        <Totals rows={rows} />
      </div>
      {opened && (
        <GraphDetails key={opened.graph_id} graph={opened} onClose={close} />
      )}
    </div>
  );
}

function Totals({ rows }: { rows: readonly Graph[] }): JSX.Element {
  const { t } = useEnv();
  const sum = (of: (graph: Graph) => number): number =>
    rows.reduce((total, graph) => total + of(graph), 0);
  return (
    <div class="xn-totals">
      {[
        t.plural('%1 graph', '%1 graphs', rows.length),
        t.plural(
          '%1 run',
          '%1 runs',
          sum(graph => graph.runs)
        ),
        t(
          '%1 compiling',
          durationText(sum(graph => (graph.compiled ? graph.compile_ns : 0)))
        ),
        t('%1 saved', bytesText(sum(graph => graph.saved_nbytes)))
      ].join(' · ')}
    </div>
  );
}

function stateFits(
  graph: Graph,
  wanted: GraphState | 'cached' | 'all'
): boolean {
  return (
    wanted === 'all' ||
    (wanted === 'cached' ? graph.state !== 'dropped' : graph.state === wanted)
  );
}
