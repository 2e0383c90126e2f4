/** The panel of events: its log and its timeline. */
import { describe, expect, it, vi } from 'vitest';
import {
  cell,
  delta,
  event,
  graph,
  hazardous,
  range,
  snapshot,
  T0
} from './facts';
import { clockText } from '../src/view/format';
import { Page } from './mounted';

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
