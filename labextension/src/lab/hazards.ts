import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';

import { EventRow } from '../protocol/messages';
import { NewHazards } from './facts';
import { KernelLink } from './kernelLink';
import { IPreferences } from './preferences';
import { IInspector, IKernels } from './tokens';
import { withEachLink } from './watch';

/** One notification for each kernel: hazards that follow a shown one are added to it. */
class HazardNotice {
  private readonly hazards = new NewHazards();
  private id = '';
  private count = 0;

  constructor(
    private readonly link: KernelLink,
    private readonly kernels: IKernels,
    private readonly preferences: IPreferences,
    private readonly inspector: IInspector,
    private readonly trans: TranslationBundle
  ) {}

  update(): void {
    const { client, isFromStart } = this.link;
    if (client.model.position === null) {
      return;
    }
    const found = this.hazards.take(client.model.events.rows, isFromStart);
    if (!found.length) {
      return;
    }
    const { notifyHazards, openOnHazard } = this.preferences.values;
    if (notifyHazards) {
      this.notify(found);
    }
    if (openOnHazard && this.kernels.front?.link === this.link) {
      this.inspector.reveal('events', found[0].seq);
    }
  }

  private notify(found: readonly EventRow[]): void {
    const isShown = Notification.manager.has(this.id);
    this.count = (isShown ? this.count : 0) + found.length;
    const message = this.message(found[found.length - 1]);
    const actions = [
      {
        label: this.trans.__('Show'),
        caption: this.trans.__('Show the hazard in the XLA Inspector'),
        callback: () => {
          this.show(found[0]);
        }
      }
    ];
    if (isShown) {
      Notification.update({ id: this.id, message, type: 'warning', actions });
    } else {
      this.id = Notification.warning(message, { autoClose: false, actions });
    }
  }

  private message(hazard: EventRow): string {
    const name = this.kernels.documentOf(this.link)?.title.label ?? '';
    return this.trans._n(
      'Hazard in %2: %3',
      '%1 hazards in %2: %3',
      this.count,
      name,
      hazard.text
    );
  }

  private show(hazard: EventRow): void {
    this.kernels.bringToFront(this.link);
    this.inspector.reveal('events', hazard.seq);
  }
}

/** Tells of new hazards. */
export const hazardsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:hazards',
  description: 'Notifies of a hazard, once.',
  autoStart: true,
  requires: [IKernels, IPreferences, IInspector],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    kernels: IKernels,
    preferences: IPreferences,
    inspector: IInspector,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('xla_notebook');
    withEachLink(kernels, link => {
      const notice = new HazardNotice(
        link,
        kernels,
        preferences,
        inspector,
        trans
      );
      return link.client.subscribe(() => {
        notice.update();
      });
    });
  }
};
