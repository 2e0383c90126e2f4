/** The panel of buffers: whose they are, what became of them, and use after donation. */
import { within } from '@testing-library/preact';
import { describe, expect, it, vi } from 'vitest';
import {
  buffer,
  cell,
  event,
  graph,
  hazardous,
  snapshot,
  STATUS
} from './facts';
import { Page } from './mounted';

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
