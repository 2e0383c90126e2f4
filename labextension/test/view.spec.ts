import { within } from '@testing-library/preact';
import { describe, expect, it, vi } from 'vitest';
import {
  buffer,
  cell,
  delta,
  details,
  event,
  graph,
  hazardous,
  hloText,
  range,
  SETTINGS,
  snapshot,
  STATUS,
  T0
} from './facts';
import { clockText } from '../src/view/format';
import { answerPlaces, pagePlaces } from '../src/view/pagePlaces';
import { Page } from './mounted';

const NASTY = '<img src=x onerror="alert(1)">';

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
    await page.click(page.screen.getByRole('button', { name: 'Show HLO' }));
    const { id } = page.kernel.last('get_hlo');
    await page.say({
      type: 'hlo',
      id,
      graph_id: 1,
      text: hloText('/tmp/ipykernel_1/2.py', 20),
      ops: { add: 20 }
    });
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

describe('the buffers panel', () => {
  async function buffersPage(facts = hazardous()): Promise<Page> {
    const page = new Page(facts);
    await page.openPanel('Buffers');
    return page;
  }

  it('lists the buffers, largest first, and says whose the bytes are', async () => {
    const page = await buffersPage(
      snapshot({ buffers: [buffer(1), buffer(2), buffer(7)] })
    );
    expect(page.rows[0]).toEqual([
      'train_step #7: constant 0',
      '7f0001c0',
      '64x8',
      'bfloat16',
      '2 KiB',
      'saved',
      'live'
    ]);
    expect(page.element.querySelector('.xn-legend')?.textContent).toContain(
      'graphs only 2.8 KiB'
    );
    expect(page.element.querySelector('.xn-totals')?.textContent).toContain(
      '3 buffers · 3.3 KiB live'
    );
  });

  it('filters by name, handle, state and owner', async () => {
    const page = await buffersPage();
    await page.type('Filter by name or handle', '0xbeef');
    expect(page.rows.map(row => row[0])).toEqual(['running_mean']);
    await page.type('Filter by name or handle', 'running');
    expect(page.rows).toHaveLength(2);
    await page.choose('State', 'stale');
    expect(page.rows.map(row => row[0])).toEqual([
      'train_step #2: running_mean'
    ]);
    await page.choose('Owner', 'module');
    expect(
      page.screen.getByText('None of the 162 buffers fits the filter.')
    ).toBeTruthy();
  });

  it('finds use after donation at once, and tells its history', async () => {
    const page = await buffersPage();
    await page.click(
      page.screen.getByRole('button', { name: '1 used after donation' })
    );
    expect(page.rows).toHaveLength(1);
    expect(page.row(0).className).toContain('xn-row-danger');
    await page.click(page.row(0));
    const text = page.details.textContent;
    expect(text).toContain('gone, but a graph still counts on it');
    expect(text).toContain('read by 6 runs of train_step #2');
    expect(text).toContain('was donated by a step barrier');
    expect(text).toContain('memory now holds running_mean');
    await page.click(page.screen.getByRole('button', { name: 'running_mean' }));
    expect(page.details.textContent).toContain('took this memory');
  });

  it('leads from a buffer to where it was saved and to where it was donated', async () => {
    const openPlace = vi.fn();
    const page = new Page(hazardous(), { openPlace });
    await page.do(() => page.view.show('buffers', 'h900'));
    const links = within(page.details).getAllByRole('button', {
      name: /^cell/
    });
    await page.click(links[0]);
    expect(openPlace).toHaveBeenLastCalledWith(event(161).place, cell(2));
    await page.click(links[1]);
    expect(openPlace).toHaveBeenLastCalledWith(graph(2).place, graph(2).cell);
  });

  it('groups by owner, state and Python name, and opens a group', async () => {
    const page = await buffersPage();
    await page.choose('Group by', 'name');
    expect(page.rows.map(row => row[0].slice(2))).toEqual(
      expect.arrayContaining(['model', 'running_mean', 'train_step #2'])
    );
    await page.choose('Group by', 'state');
    expect(page.rows.map(row => row[0])).toEqual(['▸ live', '▸ stale']);
    await page.press(page.grid, 'End');
    await page.press(page.grid, 'Enter');
    expect(page.rows.map(row => row[0])).toEqual([
      '▸ live',
      '▾ stale',
      'train_step #2: running_mean'
    ]);
    expect(page.row(1).getAttribute('aria-expanded')).toBe('true');
  });

  it('says when the search for buffers was cut short', async () => {
    const page = await buffersPage(
      snapshot({
        buffers: [buffer(1)],
        status: { ...STATUS, buffers_complete: false }
      })
    );
    expect(page.element.querySelector('.xn-totals')?.textContent).toContain(
      'there may be more'
    );
  });
});

describe('the events panel', () => {
  it('lists events with hazards marked, and a timeline in words', async () => {
    const page = new Page(hazardous());
    await page.openPanel('Events');
    await page.choose('Kind', 'danger');
    const last = page.row(page.rows.length - 1);
    expect(last.className).toContain('xn-row-danger');
    expect(page.screen.getByRole('img').getAttribute('aria-label')).toContain(
      'hazards 1'
    );
  });

  it('has the runs that were heard of in the timeline, but for those before the page', async () => {
    const page = new Page(
      snapshot({ graphs: [graph(1)], events: [event(1)], event_total: 1 })
    );
    await page.openPanel('Events');
    const timeline = (): string =>
      page.screen.getByRole('img').getAttribute('aria-label') ?? '';
    expect(timeline()).not.toContain('runs');
    const more = { graphs: [graph(1, { runs: 1234 }), graph(2, { runs: 3 })] };
    await page.say(delta(1, { ...more, time_ms: T0 + 60_000 }));
    await vi.waitFor(() => expect(timeline()).toContain('runs 1,234'));
    expect(timeline()).toContain(`to ${clockText(T0 + 60_000)}`);
    // A page that fell behind gets everything anew.
    const anew = { graphs: [graph(2, { runs: 5 })], time_ms: T0 + 61_000 };
    await page.say(snapshot({ ...anew, events: [event(1)], event_total: 1 }));
    await page.choose('Kind', 'cell');
    await page.choose('Kind', 'all');
    expect(timeline()).toContain('runs 1,236');
    await page.type('Filter events', 'warming');
    expect(timeline()).not.toContain('runs');
  });

  it('filters by text as events come', async () => {
    const page = new Page(
      snapshot({ events: range(20, event), event_total: 20 })
    );
    await page.openPanel('Events');
    await page.type('Filter events', 'compiled in');
    expect(page.rows).toHaveLength(3);
    await page.say(
      delta(1, { events: [event(20), event(23)], event_total: 22 })
    );
    expect(page.rows).toHaveLength(4);
  });

  it('loads older events on demand', async () => {
    const page = new Page(
      snapshot({ events: range(5, event, 10), event_total: 15 })
    );
    await page.openPanel('Events');
    await page.click(page.screen.getByRole('button', { name: 'Load older' }));
    const { id, before } = page.kernel.last('get_events');
    expect(before).toBe(10);
    await page.say({ type: 'rows', id, events: range(10, event) });
    expect(page.rows).toHaveLength(15);
    expect(
      page.screen.queryByRole('button', { name: 'Load older' })
    ).toBeNull();
  });

  it('leads to the cell of an event', async () => {
    const openPlace = vi.fn();
    const page = new Page(snapshot({ events: [event(3)], event_total: 1 }), {
      openPlace
    });
    await page.openPanel('Events');
    await page.click(
      page.screen.getByRole('button', { name: 'cell 4, line 3' })
    );
    expect(openPlace).toHaveBeenCalledWith(event(3).place, cell(4));
    expect(page.element.querySelector('.xn-details')).toBeNull();
  });
});

describe('settings', () => {
  it('show a change as pending until the kernel confirms it', async () => {
    const page = new Page(snapshot());
    await page.click(page.radio('Warm-up', 'off'));
    expect(page.kernel.last('set_setting')).toMatchObject({
      name: 'warm_up',
      value: 'off'
    });
    expect(page.radio('Warm-up', 'compile').checked).toBe(true);
    expect(page.screen.getByText('asking for off…')).toBeTruthy();
    const { id } = page.kernel.last('set_setting');
    await page.say({
      type: 'changed',
      id,
      settings: { ...SETTINGS, warm_up: 'off' }
    });
    expect(page.radio('Warm-up', 'off').checked).toBe(true);
    expect(page.screen.queryByText('asking for off…')).toBeNull();
  });

  it('stay what they are when the kernel refuses, and say why until dismissed', async () => {
    const page = new Page(snapshot());
    await page.click(page.radio('Freeze', 'error'));
    const { id } = page.kernel.last('set_setting');
    await page.say({ type: 'failed', id, code: 'setting', text: 'not now' });
    expect(page.radio('Freeze', 'off').checked).toBe(true);
    expect(page.screen.getByRole('alert').textContent).toContain('not now');
    await page.click(page.screen.getByRole('button', { name: 'Dismiss' }));
    expect(page.screen.getByRole('alert').textContent).toBe('');
  });

  it('send booleans as booleans', async () => {
    const page = new Page(snapshot());
    await page.openPanel('Settings');
    await page.click(
      page.radio(
        'Guard',
        'off donations may hit saved buffers, as without this extension'
      )
    );
    expect(page.kernel.last('set_setting')).toMatchObject({
      name: 'guard',
      value: false
    });
  });

  it('cannot be changed while disconnected, and say why', async () => {
    const page = new Page(snapshot());
    page.kernel.become('closed');
    await page.say({ type: 'closed' });
    const group = page.screen.getByRole<HTMLFieldSetElement>('group', {
      name: 'Warm-up'
    });
    expect(group.disabled).toBe(true);
    expect(group.textContent).toContain('Not connected: the kernel has ended');
  });

  it('clear only after a second thought', async () => {
    const page = new Page(snapshot());
    await page.openPanel('Settings');
    await page.click(page.screen.getByRole('button', { name: 'Clear…' }));
    expect(page.kernel.count('clear')).toBe(0);
    await page.click(page.screen.getByRole('button', { name: 'Drop them' }));
    await page.say({
      type: 'cleared',
      id: page.kernel.last('clear').id,
      graphs: 3,
      nbytes: 2048
    });
    expect(
      page.screen.getByText('3 graphs dropped, 2 KiB came free.')
    ).toBeTruthy();
  });
});

describe('the view', () => {
  it('teaches where there is nothing yet', async () => {
    const page = new Page(snapshot());
    expect(page.element.textContent).toContain(
      'No graphs yet: run a cell with %%xla_compile.'
    );
    await page.openPanel('Events');
    expect(page.element.textContent).toContain('Nothing has happened yet');
    await page.openPanel('Buffers');
    expect(page.element.textContent).toContain('No device buffers');
  });

  it('shows names, causes and HLO as text, never as markup', async () => {
    const owners = [{ kind: 'variable' as const, name: NASTY, graph_id: null }];
    const page = new Page(
      snapshot({
        graphs: [
          graph(1, {
            name: NASTY,
            inputs: NASTY,
            causes: [{ what: NASTY, fix: NASTY, guard: NASTY }]
          })
        ],
        buffers: [buffer(1, { owners })],
        events: [event(1, { text: NASTY })],
        event_total: 1
      })
    );
    await page.click(page.row(0));
    await page.say(
      details(page.kernel.last('get_details').id, graph(1, { name: NASTY }))
    );
    await page.click(page.screen.getByRole('button', { name: 'Show HLO' }));
    const { id } = page.kernel.last('get_hlo');
    await page.say({
      type: 'hlo',
      id,
      graph_id: 1,
      text: NASTY,
      ops: { [NASTY]: 1 }
    });
    expect(page.details.querySelector('.xn-lines')?.textContent).toContain(
      NASTY
    );
    for (const panel of ['Graphs', 'Buffers', 'Events']) {
      await page.openPanel(panel);
      expect(page.element.textContent).toContain(NASTY);
      expect(page.element.querySelector('img')).toBeNull();
    }
  });

  it('goes through its panels with the arrow keys', async () => {
    const page = new Page(snapshot());
    const tabs = page.screen.getByRole('tablist');
    await page.press(tabs, 'ArrowLeft');
    expect(page.screen.getByRole('tab', { selected: true }).textContent).toBe(
      'Settings'
    );
    expect(document.activeElement?.textContent).toBe('Settings');
    await page.press(tabs, 'ArrowRight');
    expect(page.screen.getByRole('tab', { selected: true }).textContent).toBe(
      'Graphs'
    );
  });

  it('says how the connection is', async () => {
    const page = new Page(snapshot());
    const status = page.element.querySelector('.xn-connection');
    expect(status?.textContent).toBe('live');
    await page.say(
      delta(1, { status: { ...STATUS, busy: cell(3), prompt: false } })
    );
    expect(status?.textContent).toBe('busy: cell 3');
    await page.click(page.radio('Warm-up', 'off'));
    expect(status?.textContent).toBe('waiting for cell 3');
    await page.say({ type: 'closed' });
    expect(status?.textContent).toBe('disconnected');
  });

  it('remembers panel and order, and nothing that does not fit', async () => {
    const kept = new Map<string, string>();
    const storage = {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => void kept.set(key, value)
    };
    const first = new Page(hazardous(), { storage });
    await first.openPanel('Buffers');
    await first.choose('Group by', 'state');
    const second = new Page(hazardous(), { storage });
    expect(second.rows.map(row => row[0])).toEqual(['▸ live', '▸ stale']);
    for (const key of kept.keys()) {
      kept.set(key, '{"panel": 7, "graphSort": "x"}');
    }
    expect(new Page(hazardous(), { storage }).rows[0][0]).toBe('train_step #1');
  });

  it('speaks the language that it is given', () => {
    const page = new Page(snapshot(), {
      translate: Object.assign(
        (text: string, ...args: unknown[]) => `«${text}${args.join()}»`,
        {
          plural: (_: string, many: string, count: number) =>
            `«${many}${count}»`
        }
      )
    });
    expect(page.screen.getByRole('tab', { name: '«Graphs»' })).toBeTruthy();
    expect(page.element.textContent).toContain('«%1 graphs0»');
  });

  it('shows only the panels that it is given', () => {
    const page = new Page(snapshot(), { panels: ['buffers', 'events'] });
    expect(page.screen.getAllByRole('tab').map(tab => tab.textContent)).toEqual(
      ['Buffers', 'Events']
    );
    expect(page.element.textContent).toContain('No device buffers');
  });

  it('tells the kernel that it is seen, and that it is gone', () => {
    const page = new Page(snapshot());
    expect(page.kernel.last('show').visible).toBe(true);
    page.view.dispose();
    expect(page.kernel.last('show').visible).toBe(false);
    expect(page.element.textContent).toBe('');
  });

  it('shows what the host asks for', async () => {
    const page = new Page(hazardous());
    await page.say(delta(1));
    page.view.show('buffers', 'h900');
    expect(page.details.textContent).toContain('running_mean');
  });
});

describe('places of a view that is part of a page', () => {
  const mountedIn = (): Page =>
    new Page(snapshot({ graphs: [graph(1)] }), {
      openPlace: pagePlaces(document.body)
    });

  it('are links where the page answers, and text where it does not', async () => {
    const text = mountedIn();
    expect(text.rows[0][1]).toBe('cell 2, line 7');
    expect(text.row(0).querySelector('button')).toBeNull();
    const open = vi.fn();
    answerPlaces(document, open);
    const page = mountedIn();
    await page.click(
      page.screen.getByRole('button', { name: 'cell 2, line 7' })
    );
    expect(open).toHaveBeenCalledWith(
      document.body,
      graph(1).place,
      graph(1).cell
    );
  });
});

describe('two views in one page', () => {
  it('do not share radio buttons or ids', () => {
    const first = new Page(snapshot());
    const second = new Page(snapshot());
    const checked = (page: Page): string[] =>
      Array.from(
        page.element.querySelectorAll<HTMLInputElement>('input:checked'),
        input => input.value
      );
    expect(checked(first)).toEqual(checked(second));
    expect(checked(first).length).toBeGreaterThan(0);
    const ids = Array.from(document.querySelectorAll('[id]'), ({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});
