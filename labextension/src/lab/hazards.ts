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
import { KernelLink } from './kernelLink';
import { IPreferences } from './preferences';
import { IInspector, IKernels } from './tokens';
import { withEachLink } from './watch';

/** Finds the hazards of one kernel that are new, each once. */
export class NewHazards {
  // The newest event that was looked at; null before anything was.
  private seen: number | null = null;

  /** Those since the last call. What is there at the first one is old, unless `fromStart`. */
  take(rows: readonly EventRow[], fromStart: boolean): EventRow[] {
    const newest = rows.length ? rows[rows.length - 1].seq : -1;
    if (this.seen === null || newest < this.seen) {
      // The first look, or the kernel began anew.
      this.seen = fromStart ? -1 : newest;
    }
    const found: EventRow[] = [];
    for (let at = rows.length - 1; at >= 0; at -= 1) {
      if (rows[at].seq <= this.seen) {
        break;
      }
      if (rows[at].kind === 'hazard') {
        found.unshift(rows[at]);
      }
    }
    this.seen = newest;
    return found;
  }
}

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
    return this.count === 1
      ? this.trans.__('Hazard in %1: %2', name, hazard.text)
      : this.trans.__('%1 hazards in %2: %3', this.count, name, hazard.text);
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
