/** The panel of graphs: its table, the details of a graph, HLO and comparisons. */
import { describe, expect, it, vi } from 'vitest';
import { cell, delta, details, graph, hloText, range, snapshot } from './facts';
import { Page } from './mounted';

describe('the graphs panel', () => {
  it('lists the cached graphs, and says what they are in total', () => {
    const page = new Page(
      snapshot({ graphs: [graph(1), graph(2, { state: 'dropped' }), graph(4)] })
    );
    expect(page.rows.map(row => row[0])).toEqual([
      'train_step #1',
      'train_step #4'
    ]);
    expect(page.rows[1]).toEqual([
      'train_step #4',
      'cell 5, line 7',
      'a7a7a7a7',
      'float32 12x128, int64 12',
      'the size of x changed from 12 to 16',
      '12.0 ms',
      '804.0 ms',
      '12',
      '350 µs',
      '20 KiB',
      'warm'
    ]);
    const totals = page.element.querySelector('.xn-totals');
    expect(totals?.textContent).toContain('2 graphs · 15 runs');
  });

  it('sorts by a column, and the other way at the second click', async () => {
    const page = new Page(
      snapshot({ graphs: [graph(2), graph(10), graph(1)] })
    );
    const runs = page.screen.getByRole('button', { name: /^runs/ });
    await page.click(runs);
    expect(page.rows.map(row => row[7])).toEqual(['30', '6', '3']);
    await page.click(runs);
    expect(page.rows.map(row => row[7])).toEqual(['3', '6', '30']);
    expect(
      page.screen
        .getByRole('columnheader', { name: /runs/ })
        .getAttribute('aria-sort')
    ).toBe('ascending');
  });

  it('keeps the order when a row changes, and puts it where it belongs', async () => {
    const page = new Page(snapshot({ graphs: range(5, graph, 1) }));
    await page.click(page.screen.getByRole('button', { name: /^runs/ }));
    await page.say(
      delta(1, { graphs: [graph(1, { runs: 100 })], graphs_gone: [3] })
    );
    expect(page.rows.map(row => row[7])).toEqual(['100', '15', '12', '6']);
  });

  it('filters by text and by state', async () => {
    const page = new Page(
      snapshot({
        graphs: [...range(6, graph, 1), graph(9, { state: 'evicted' })]
      })
    );
    await page.type('Filter graphs', 'EVALUATE');
    expect(page.rows.map(row => row[0])).toEqual([
      'evaluate #3',
      'evaluate #6',
      'evaluate #9'
    ]);
    await page.choose('State', 'evicted');
    expect(page.rows.map(row => row[0])).toEqual(['evaluate #9']);
    await page.type('Filter graphs', 'nothing like this');
    expect(
      page.screen.getByText('None of the 7 graphs fits the filter.')
    ).toBeTruthy();
  });

  it('lists the graphs of one cell until told otherwise, and opens an only one', async () => {
    const of = (id: number, at: number, from: number) =>
      graph(id, {
        name: `g${id}`,
        cell: cell(at),
        place: { text: '', filename: null, line: 1, cell: cell(from) }
      });
    const dropped = { ...of(4, 7, 7), state: 'dropped' as const };
    const page = new Page(
      snapshot({ graphs: [of(1, 7, 8), of(2, 9, 7), of(3, 9, 9), dropped] })
    );
    await page.do(() => page.view.showGraphsOf(cell(7)));
    expect(page.rows.map(row => row[0])).toEqual(['g1', 'g2']);
    expect(page.element.querySelector('.xn-details')).toBeNull();
    await page.click(page.screen.getByRole('button', { name: 'only cell 7' }));
    expect(page.rows.map(row => row[0])).toEqual(['g1', 'g2', 'g3']);
    await page.do(() => page.view.showGraphsOf(cell(8)));
    expect(page.details.getAttribute('aria-label')).toBe('g1');
  });

  it('draws only the rows in sight', () => {
    const page = new Page(snapshot({ graphs: range(1000, graph) }));
    expect(page.rows.length).toBeLessThan(50);
    expect(page.grid.getAttribute('aria-rowcount')).toBe('1001');
  });

  it('opens a graph with the keyboard, and closes it with Escape', async () => {
    const page = new Page(snapshot({ graphs: range(5, graph, 1) }));
    await page.press(page.grid, 'ArrowDown');
    await page.press(page.grid, 'ArrowDown');
    const active = page.grid.getAttribute('aria-activedescendant') ?? '';
    expect(document.getElementById(active)?.textContent).toContain(
      'train_step #2'
    );
    await page.press(page.grid, 'Enter');
    expect(page.kernel.last('get_details').graph_id).toBe(2);
    await page.say(details(page.kernel.last('get_details').id, graph(2)));
    expect(page.details.textContent).toContain('model.running_mean');
    expect(
      page.details.querySelector('[role="img"]')?.getAttribute('aria-label')
    ).toContain('output 1 is the new value of model.n, in its memory');
    await page.press(page.details, 'Escape');
    expect(page.element.querySelector('.xn-details')).toBeNull();
  });

  it('shows the kernel’s words where details are refused', async () => {
    const page = new Page(snapshot({ graphs: [graph(1)] }));
    await page.click(page.row(0));
    const { id } = page.kernel.last('get_details');
    await page.say({
      type: 'failed',
      id,
      code: 'gone',
      text: 'graph 1 is gone'
    });
    expect(page.details.textContent).toContain('graph 1 is gone');
  });

  it('searches HLO, and leads to the line of the cell', async () => {
    const openPlace = vi.fn();
    const page = new Page(snapshot({ graphs: [graph(1)] }), { openPlace });
    await page.click(page.row(0));
    await page.showHlo(hloText('/tmp/ipykernel_1/2.py', 20), { add: 20 });
    await page.type('Search in HLO', 'ADD.1');
    expect(page.details.textContent).toContain('1 of 11');
    await page.click(page.screen.getByRole('button', { name: 'Previous' }));
    expect(page.details.textContent).toContain('11 of 11');
    expect(page.details.querySelector('.xn-current')?.textContent).toContain(
      '%add.19'
    );
    expect(page.details.querySelector('mark')?.textContent).toBe('add.1');
    expect(page.details.textContent).not.toContain('metadata');
    await page.click(page.screen.getAllByRole('button', { name: 'line 3' })[0]);
    expect(openPlace).toHaveBeenCalledWith(
      {
        filename: '/tmp/ipykernel_1/2.py',
        line: 3,
        text: 'line 3',
        cell: cell(2)
      },
      cell(2)
    );
  });

  it('compares two graphs', async () => {
    const page = new Page(snapshot({ graphs: [graph(1), graph(2)] }));
    await page.click(page.row(0));
    await page.choose('Compare with', '2');
    const asked = page.kernel.last('get_diff');
    expect([asked.first, asked.second]).toEqual([2, 1]);
    await page.say({
      type: 'diff',
      id: asked.id,
      lines: ['-  f32[8]', '+  f32[16]']
    });
    expect(page.details.querySelector('.xn-added')?.textContent).toBe(
      '+  f32[16]'
    );
  });
});
