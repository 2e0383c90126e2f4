/** Pure functions on graphs. */
import { Cell, Graph } from '../../protocol/messages';

/** Whether a graph stems from a cell: was compiled by it, or from a function defined in it. */
export function isOfCell(
  { cell, place }: Graph,
  { cell_id: id }: Cell
): boolean {
  return id !== null && (cell?.cell_id === id || place?.cell?.cell_id === id);
}

/** The cached graphs that stem from a cell. */
export function graphsOfCell(graphs: Iterable<Graph>, cell: Cell): Graph[] {
  return [...graphs].filter(
    graph => graph.state !== 'dropped' && isOfCell(graph, cell)
  );
}
