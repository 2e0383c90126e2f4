import axe from 'axe-core';
import { expect, it } from 'vitest';
import { details, graph, hazardous, hloText, snapshot } from './facts';
import { Page } from './mounted';

// Colours need a layout: they are checked in a real browser (see tests/ui).
const OPTIONS: axe.RunOptions = {
  rules: { 'color-contrast': { enabled: false }, region: { enabled: false } }
};

async function violations(page: Page): Promise<string[]> {
  const found = await axe.run(page.element, OPTIONS);
  return found.violations.map(
    violation =>
      `${violation.id}: ${violation.nodes.map(node => node.html).join()}`
  );
}

it.each(['Graphs', 'Buffers', 'Events', 'Settings'])(
  'axe finds nothing wrong with %s',
  async panel => {
    const page = new Page(hazardous(), { openPlace: () => undefined });
    await page.openPanel(panel);
    expect(await violations(page)).toEqual([]);
    if (panel !== 'Settings') {
      await page.click(page.row(1));
      expect(await violations(page)).toEqual([]);
    }
  }
);

it('axe finds nothing wrong with an open graph, groups and an empty page', async () => {
  const page = new Page(hazardous(), { openPlace: () => undefined });
  await page.click(page.row(1));
  await page.say(details(page.kernel.last('get_details').id, graph(2)));
  await page.showHlo(hloText('x.py', 9), { add: 9 });
  expect(await violations(page)).toEqual([]);
  await page.openPanel('Buffers');
  await page.choose('Group by', 'owner');
  await page.click(page.row(0));
  expect(await violations(page)).toEqual([]);
  expect(await violations(new Page(snapshot()))).toEqual([]);
});
