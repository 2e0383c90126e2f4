import { describe, expect, it, vi } from 'vitest';
import {
  buffer,
  cell,
  delta,
  details,
  event,
  graph,
  hazardous,
  snapshot,
  STATUS
} from './facts';
import { answerPlaces, pagePlaces } from '../src/view/pagePlaces';
import { Page } from './mounted';

const NASTY = '<img src=x onerror="alert(1)">';

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
    await page.showHlo(NASTY, { [NASTY]: 1 });
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
