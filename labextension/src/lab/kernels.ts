import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IConsoleTracker } from '@jupyterlab/console';
import { INotebookTracker } from '@jupyterlab/notebook';
import { Kernel } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { KernelLink } from './kernelLink';
import { IPreferences } from './preferences';
import { Document, Front, IKernels } from './tokens';

/** Keeps one link for each kernel whose notebook or console is open. */
export class Kernels implements IKernels {
  private readonly byId = new Map<string, KernelLink>();
  private readonly kernelOf = new Map<
    Document,
    Kernel.IKernelConnection | null
  >();
  private readonly frontSignal = new Signal<this, void>(this);
  private readonly linksSignal = new Signal<this, void>(this);
  private frontDocument: Document | null = null;

  constructor(
    private readonly preferences: IPreferences,
    private readonly activate: (id: string) => void
  ) {}

  get front(): Front | null {
    const document = this.frontDocument;
    return document && { document, link: this.linkOf(document) };
  }

  get frontChanged(): ISignal<this, void> {
    return this.frontSignal;
  }

  get links(): Iterable<KernelLink> {
    return this.byId.values();
  }

  get linksChanged(): ISignal<this, void> {
    return this.linksSignal;
  }

  documentOf(link: KernelLink): Document | null {
    if (this.front?.link === link) {
      return this.front.document;
    }
    const documents = [...this.kernelOf.keys()];
    return documents.find(each => this.linkOf(each) === link) ?? null;
  }

  bringToFront(link: KernelLink): void {
    const document = this.documentOf(link);
    if (document) {
      this.activate(document.id);
    }
  }

  /** Follow a notebook or console until it is closed. */
  follow(document: Document): void {
    const { sessionContext, title } = document;
    this.kernelOf.set(document, null);
    const update = (): void => {
      this.use(document, sessionContext.session?.kernel ?? null);
    };
    const tell = (): void => {
      this.tellIfFront(document);
    };
    sessionContext.kernelChanged.connect(update);
    title.changed.connect(tell);
    // The session's end comes first: while there is a connection the kernel can still be told.
    sessionContext.disposed.connect(() => {
      sessionContext.kernelChanged.disconnect(update);
      title.changed.disconnect(tell);
      this.use(document, null);
      this.kernelOf.delete(document);
      if (this.frontDocument === document) {
        this.setFront([...this.kernelOf.keys()].pop() ?? null);
      }
    });
    update();
  }

  /** `widget` came to the front. Other things than notebooks and consoles leave the last one in place. */
  onCurrent(widget: Widget | null): void {
    const document = [...this.kernelOf.keys()].find(each => each === widget);
    if (document) {
      this.setFront(document);
    }
  }

  private setFront(document: Document | null): void {
    if (document !== this.frontDocument) {
      this.frontDocument = document;
      this.frontSignal.emit();
    }
  }

  private linkOf(document: Document): KernelLink | null {
    const kernel = this.kernelOf.get(document);
    return (kernel && this.byId.get(kernel.id)) ?? null;
  }

  private use(
    document: Document,
    kernel: Kernel.IKernelConnection | null
  ): void {
    const before = this.kernelOf.get(document) ?? null;
    if (before === kernel) {
      return;
    }
    this.kernelOf.set(document, kernel);
    if (before) {
      this.release(before);
    }
    if (kernel) {
      this.linkTo(kernel).add(kernel);
    }
    this.tellIfFront(document);
  }

  private linkTo(kernel: Kernel.IKernelConnection): KernelLink {
    let link = this.byId.get(kernel.id);
    if (!link) {
      link = new KernelLink(kernel.id, {
        schedule: this.preferences.schedule
      });
      link.stateChanged.connect(this.onState, this);
      this.byId.set(kernel.id, link);
      this.linksSignal.emit();
    }
    return link;
  }

  private release(kernel: Kernel.IKernelConnection): void {
    const link = this.byId.get(kernel.id);
    link?.remove(kernel);
    if (link?.isUnused) {
      this.byId.delete(kernel.id);
      link.dispose();
      this.linksSignal.emit();
    }
  }

  private onState(link: KernelLink): void {
    if (this.front?.link === link) {
      this.frontSignal.emit();
    }
  }

  private tellIfFront(document: Document): void {
    if (document === this.frontDocument) {
      this.frontSignal.emit();
    }
  }
}

/** Provides the kernels of all notebooks and consoles, and says which one is in front. */
export const kernelsPlugin: JupyterFrontEndPlugin<IKernels> = {
  id: 'xla-notebook:kernels',
  description: 'Connects to the kernels of notebooks and consoles.',
  autoStart: true,
  requires: [INotebookTracker, IPreferences],
  optional: [IConsoleTracker],
  provides: IKernels,
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    preferences: IPreferences,
    consoles: IConsoleTracker | null
  ): IKernels => {
    const kernels = new Kernels(preferences, id => {
      app.shell.activateById(id);
    });
    const follow = (document: Document): void => {
      kernels.follow(document);
      // A widget is tracked after it has come to the front.
      kernels.onCurrent(app.shell.currentWidget);
    };
    const trackers = [notebooks, ...(consoles ? [consoles] : [])];
    for (const tracker of trackers) {
      tracker.forEach(follow);
      tracker.widgetAdded.connect((_, document: Document) => {
        follow(document);
      });
      tracker.currentChanged.connect((_, document: Document | null) => {
        if (document && document === app.shell.currentWidget) {
          kernels.onCurrent(document);
        }
      });
    }
    app.shell.currentChanged?.connect(() => {
      kernels.onCurrent(app.shell.currentWidget);
    });
    return kernels;
  }
};
