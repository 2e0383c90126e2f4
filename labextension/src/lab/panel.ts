import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { MountedView, mountView } from '../view/mount';
import { Commands } from './commandIds';
import { xlaIcon } from './icon';
import { KernelLink } from './kernelLink';
import { noticeOf } from './notice';
import { IPreferences } from './preferences';
import { Front, IInspector, IJump, IKernels } from './tokens';
import { translateWith } from './translate';

const PANEL_ID = 'xla-notebook-inspector';

interface PanelOptions {
  kernels: IKernels;
  preferences: IPreferences;
  jump: IJump;
  trans: TranslationBundle;
  /** Loads the extension in the notebook or console in front, for everyone to see. */
  load: () => void;
}

/** The sidebar: which notebook it is about, what there is to say about its kernel, and the view of it. */
class InspectorPanel extends Widget {
  private readonly heading = document.createElement('h2');
  private readonly notice = document.createElement('div');
  private readonly host = document.createElement('div');
  private mounted: { link: KernelLink; view: MountedView } | null = null;
  private noticeText: string | undefined | null = null;
  // What is to be shown once the view is there.
  private wanted: ((view: MountedView) => void) | null = null;

  constructor(private readonly options: PanelOptions) {
    super();
    const { kernels, preferences, trans } = options;
    this.id = PANEL_ID;
    this.addClass('jp-xla-Inspector');
    this.title.icon = xlaIcon;
    this.title.caption = trans.__('XLA graphs, buffers and events');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('XLA Inspector'));
    this.heading.className = 'jp-xla-Inspector-heading';
    this.notice.className = 'jp-xla-Inspector-notice';
    this.notice.setAttribute('role', 'status');
    this.host.className = 'jp-xla-Inspector-view';
    this.node.append(this.heading, this.notice, this.host);
    kernels.frontChanged.connect(this.update, this);
    preferences.changed.connect(this.remount, this);
    this.update();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.options.kernels.frontChanged.disconnect(this.update, this);
    this.options.preferences.changed.disconnect(this.remount, this);
    this.unmount();
    super.dispose();
  }

  /** Let the view show something, now or once there is a kernel. */
  want(wanted: (view: MountedView) => void): void {
    this.wanted = wanted;
    this.update();
  }

  protected onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    const { front } = this.options.kernels;
    this.drawHeading(front);
    this.drawNotice(front);
    // Where nothing has been seen of the kernel, the notice says all there is to say.
    const link = front?.link ?? null;
    const hasSeen = link?.state === 'open' || link?.client.model.position;
    this.mount(hasSeen ? link : null);
  }

  private drawHeading(front: Front | null): void {
    const { trans } = this.options;
    this.heading.textContent = front
      ? front.document.title.label
      : trans.__('No notebook is open');
    this.heading.title = front?.document.sessionContext.path ?? '';
  }

  private drawNotice(front: Front | null): void {
    const { trans, load } = this.options;
    const notice = noticeOf(front, trans);
    if (notice?.text === this.noticeText) {
      return; // A button that is being clicked stays the same.
    }
    this.noticeText = notice?.text;
    this.notice.replaceChildren();
    this.notice.hidden = notice === null;
    if (!notice) {
      return;
    }
    const text = document.createElement('p');
    text.textContent = notice.text;
    this.notice.append(text);
    if (notice.canLoad) {
      const button = document.createElement('button');
      button.className = 'jp-xla-Inspector-load jp-mod-styled jp-mod-accept';
      button.textContent = trans.__('Run %load_ext xla_notebook');
      button.addEventListener('click', load);
      this.notice.append(button);
    }
  }

  private mount(link: KernelLink | null): void {
    if (this.mounted?.link !== link) {
      this.unmount();
      if (link) {
        this.mounted = { link, view: this.viewOf(link) };
      }
    }
    if (this.mounted && this.wanted) {
      this.wanted(this.mounted.view);
      this.wanted = null;
    }
  }

  private viewOf(link: KernelLink): MountedView {
    const { trans, jump, preferences } = this.options;
    return mountView(this.host, link.client, {
      translate: translateWith(trans),
      openPlace: (place, cell) => {
        jump.open(link.kernelId, place, cell);
      },
      panels: preferences.values.panels,
      storage: window.localStorage
    });
  }

  private unmount(): void {
    this.mounted?.view.dispose();
    this.mounted = null;
  }

  private remount(): void {
    this.unmount();
    this.update();
  }
}

/** Adds the sidebar, and the command that opens it. */
export const panelPlugin: JupyterFrontEndPlugin<IInspector> = {
  id: 'xla-notebook:panel',
  description: 'Shows graphs, buffers and events of the kernel in front.',
  autoStart: true,
  requires: [IKernels, IPreferences, IJump],
  optional: [ILayoutRestorer, ITranslator],
  provides: IInspector,
  activate: (
    app: JupyterFrontEnd,
    kernels: IKernels,
    preferences: IPreferences,
    jump: IJump,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ): IInspector => {
    const trans = (translator ?? nullTranslator).load('xla_notebook');
    const panel = new InspectorPanel({
      kernels,
      preferences,
      jump,
      trans,
      load: () => {
        void app.commands.execute(Commands.load);
      }
    });
    app.shell.add(panel, 'right', { rank: 1100, type: 'XLA Inspector' });
    restorer?.add(panel, PANEL_ID);
    const inspector: IInspector = {
      reveal: (name, key) => {
        app.shell.activateById(PANEL_ID);
        if (name) {
          panel.want(view => {
            view.show(name, key);
          });
        }
      },
      revealGraphsOf: cell => {
        app.shell.activateById(PANEL_ID);
        panel.want(view => {
          view.showGraphsOf(cell);
        });
      }
    };
    app.commands.addCommand(Commands.open, {
      label: trans.__('Show XLA Inspector'),
      caption: trans.__('Graphs, buffers and events of the kernel in front'),
      icon: xlaIcon,
      execute: () => {
        inspector.reveal();
      }
    });
    return inspector;
  }
};
