/** Settings: asked for, confirmed, refused. */
import { describe, expect, it } from 'vitest';
import { SETTINGS, snapshot } from './facts';
import { Page } from './mounted';

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
