import { cleanup, fireEvent, within } from '@testing-library/preact';
import { act } from 'preact/test-utils';
import { afterEach } from 'vitest';
import { Push, Snapshot } from '../src/protocol/messages';
import { Client } from '../src/store/client';
import { MountedView, mountView, ViewOptions } from '../src/view/mount';
import { FakeKernel } from './fakeKernel';

const mounted: MountedView[] = [];

afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  cleanup();
  document.body.innerHTML = '';
});

/** A view with a made-up kernel behind it, and what a user does with it. */
export class Page {
  readonly kernel = new FakeKernel();
  readonly client = new Client({ schedule: queueMicrotask });
  readonly element = document.body.appendChild(document.createElement('div'));
  readonly view: MountedView;
  readonly screen = within(this.element);

  constructor(facts: Snapshot, options: ViewOptions = {}) {
    this.client.connect(this.kernel);
    this.kernel.say(facts);
    this.view = mountView(this.element, this.client, options);
    mounted.push(this.view);
  }

  async say(message: Push | Parameters<FakeKernel['say']>[0]): Promise<void> {
    await settle(() => this.kernel.say(message));
  }

  async click(element: Element): Promise<void> {
    await settle(() => void fireEvent.click(element));
  }

  /** Do what a host does, and let it take effect. */
  async do(action: () => void): Promise<void> {
    await settle(action);
  }

  async press(element: Element, key: string): Promise<void> {
    await settle(() => void fireEvent.keyDown(element, { key }));
  }

  async type(label: string, value: string): Promise<void> {
    await settle(
      () =>
        void fireEvent.input(this.screen.getByLabelText(label), {
          target: { value }
        })
    );
  }

  async choose(label: string, value: string): Promise<void> {
    await settle(
      () =>
        void fireEvent.change(this.screen.getByLabelText(label), {
          target: { value }
        })
    );
  }

  async openPanel(name: string): Promise<void> {
    await this.click(this.screen.getByRole('tab', { name: new RegExp(name) }));
  }

  /** Ask for the HLO of the open graph, which the kernel answers with `text` and its `ops`. */
  async showHlo(text: string, ops: Record<string, number>): Promise<void> {
    await this.click(this.screen.getByRole('button', { name: 'Show HLO' }));
    const { id, graph_id } = this.kernel.last('get_hlo');
    await this.say({ type: 'hlo', id, graph_id, text, ops });
  }

  get grid(): HTMLElement {
    return (
      this.element.querySelector<HTMLElement>('.xn-grid') ?? raise('no table')
    );
  }

  /** The cells of the rows in sight, as text. */
  get rows(): string[][] {
    return Array.from(this.grid.querySelectorAll('.xn-body .xn-row')).map(row =>
      Array.from(row.children).map(cell => cell.textContent)
    );
  }

  row(index: number): Element {
    return this.grid.querySelectorAll('.xn-body .xn-row')[index];
  }

  get details(): HTMLElement {
    return (
      this.element.querySelector<HTMLElement>('.xn-details') ??
      raise('no details')
    );
  }

  radio(group: string, value: string): HTMLInputElement {
    const set = this.screen.getByRole('group', { name: group });
    return within(set).getByRole('radio', { name: value });
  }
}

/** Let what `action` began come to its end: frames are microtasks here. */
async function settle(action: () => void): Promise<void> {
  await act(async () => {
    action();
    await new Promise(resolve => setTimeout(resolve));
  });
}

function raise(text: string): never {
  throw new Error(text);
}
