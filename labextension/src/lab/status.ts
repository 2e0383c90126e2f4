import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { Client } from '../store/client';
import { Commands } from './commandIds';
import { statusFacts, statusTexts } from './facts';
import { IPreferences } from './preferences';
import { IKernels } from './tokens';
import { withEachLink } from './watch';

/** Graphs, saved bytes and hazards of the kernel in front. A click opens the inspector. */
class StatusItem extends Widget {
  readonly shownChanged = new Signal<this, void>(this);
  private readonly button = document.createElement('button');
  private readonly hazards = document.createElement('span');
  private readonly text = document.createElement('span');
  private wasShown = false;

  constructor(
    private readonly kernels: IKernels,
    private readonly preferences: IPreferences,
    private readonly trans: TranslationBundle,
    onClick: () => void
  ) {
    super();
    this.addClass('jp-xla-Status');
    this.hazards.className = 'jp-xla-Status-hazards';
    this.button.type = 'button';
    this.button.addEventListener('click', onClick);
    this.button.append(this.text, this.hazards);
    this.node.append(this.button);
    kernels.frontChanged.connect(this.update, this);
    preferences.changed.connect(this.update, this);
  }

  /** Whether there is anything to say. */
  get hasFacts(): boolean {
    return this.client !== null;
  }

  dispose(): void {
    Signal.clearData(this);
    super.dispose();
  }

  protected onUpdateRequest(): void {
    const { client } = this;
    if (client) {
      const texts = statusTexts(
        statusFacts(client),
        this.preferences.values,
        this.trans
      );
      setText(this.text, texts.text);
      setText(this.hazards, texts.hazards ?? '');
      this.hazards.hidden = texts.hazards === null;
      this.toggleClass('jp-mod-warn', texts.warnings.length > 0);
      this.button.title = [
        ...texts.warnings,
        this.trans.__('Show XLA Inspector')
      ].join('\n');
    }
    // The status bar draws the item anew when told, so it is told only of changes.
    if (this.wasShown !== this.hasFacts) {
      this.wasShown = this.hasFacts;
      this.shownChanged.emit();
    }
  }

  private get client(): Client | null {
    const link = this.kernels.front?.link;
    const client = link?.state === 'open' ? link.client : null;
    return client?.model.position ? client : null;
  }
}

function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Adds the item to the status bar, where there is one. */
export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:status',
  description: 'Shows graphs, saved bytes and hazards in the status bar.',
  autoStart: true,
  requires: [IKernels, IPreferences],
  optional: [IStatusBar, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    kernels: IKernels,
    preferences: IPreferences,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('xla_notebook');
    const item = new StatusItem(kernels, preferences, trans, () => {
      void commands.execute(Commands.open);
    });
    withEachLink(kernels, link =>
      link.client.subscribe(() => {
        item.update();
      })
    );
    statusBar.registerStatusItem('xla-notebook:status', {
      item,
      align: 'left',
      rank: 10,
      isActive: () => item.hasFacts,
      activeStateChanged: item.shownChanged
    });
  }
};
