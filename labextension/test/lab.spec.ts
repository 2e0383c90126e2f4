import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it } from 'vitest';

import { graphsOfCell, NewHazards, statusTexts } from '../src/lab/facts';
import { noticeOf } from '../src/lab/notice';
import { Front } from '../src/lab/tokens';
import { EventRow, Graph } from '../src/protocol/messages';

const trans = nullTranslator.load('xla_notebook');

const event = (seq: number, kind: EventRow['kind'] = 'hazard'): EventRow =>
  ({ seq, kind, text: '' }) as EventRow;
const seqs = (rows: EventRow[]): number[] => rows.map(row => row.seq);

describe('new hazards', () => {
  it('are each told once', () => {
    const hazards = new NewHazards();
    expect(hazards.take([], false)).toEqual([]);
    expect(seqs(hazards.take([event(1, 'traced'), event(2)], false))).toEqual([
      2
    ]);
    const later = [event(2), event(3), event(4, 'traced'), event(5)];
    expect(seqs(hazards.take(later, false))).toEqual([3, 5]);
    expect(hazards.take(later, false)).toEqual([]);
  });

  it('are not those that were there before the page', () => {
    expect(new NewHazards().take([event(1), event(2)], false)).toEqual([]);
  });

  it('are all of a kernel that was loaded before our eyes', () => {
    expect(seqs(new NewHazards().take([event(1)], true))).toEqual([1]);
  });

  it('are told of a kernel that began anew', () => {
    const hazards = new NewHazards();
    hazards.take([event(90)], true);
    expect(seqs(hazards.take([event(3)], true))).toEqual([3]);
    expect(seqs(hazards.take([event(3), event(4)], true))).toEqual([4]);
  });
});

it('finds the graphs of a cell by where they were compiled or defined', () => {
  const cell = (cell_id: string) => ({ execution_count: 1, cell_id });
  const graph = (graph_id: number, at: string, from: string): Graph =>
    ({
      graph_id,
      state: 'warm',
      cell: cell(at),
      place: { text: '', filename: null, line: 1, cell: cell(from) }
    }) as Graph;
  const dropped: Graph = { ...graph(4, 'a', 'a'), state: 'dropped' };
  const graphs = [graph(1, 'a', 'b'), graph(2, 'c', 'a'), graph(3, 'c', 'c')];
  const found = graphsOfCell([...graphs, dropped], 'a');
  expect(found.map(each => each.graph_id)).toEqual([1, 2]);
});

describe('the status bar', () => {
  const facts = { graphs: 3, savedNbytes: 5 * 2 ** 20, hazards: 0 };
  const limits = { graphsWarning: 0, savedMiBWarning: 0 };

  it('says graphs and saved bytes, and hazards where there are some', () => {
    const quiet = statusTexts(facts, limits, trans);
    expect(quiet.text).toBe('XLA: 3 graphs, 5 MiB saved');
    expect(quiet.hazards).toBeNull();
    expect(statusTexts({ ...facts, hazards: 1 }, limits, trans).hazards).toBe(
      '1 hazard'
    );
  });

  it('warns above a threshold, and never at 0', () => {
    expect(statusTexts(facts, limits, trans).warnings).toEqual([]);
    const strict = { graphsWarning: 2, savedMiBWarning: 4 };
    expect(statusTexts(facts, strict, trans).warnings).toHaveLength(2);
    const exact = { graphsWarning: 3, savedMiBWarning: 5 };
    expect(statusTexts(facts, exact, trans).warnings).toEqual([]);
  });
});

it('offers to load the extension only where that helps', () => {
  const front = (state: string): Front =>
    ({ document: {}, link: { state } }) as unknown as Front;
  const canLoad = (state: string) => noticeOf(front(state), trans)?.canLoad;
  expect(noticeOf(front('open'), trans)).toBeNull();
  expect(canLoad('absent')).toBe(true);
  expect(
    ['connecting', 'restarting', 'dead'].map(state => canLoad(state))
  ).toEqual([false, false, false]);
  expect(noticeOf(null, trans)?.canLoad).toBe(false);
});
