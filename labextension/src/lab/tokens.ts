/** What the plugins of this extension give each other. */
import { ConsolePanel } from '@jupyterlab/console';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';

import { Cell, Place } from '../protocol/messages';
import { PanelName } from '../view/viewState';
import { KernelLink } from './kernelLink';

/** A notebook or a console. */
export type Document = NotebookPanel | ConsolePanel;

/** The notebook or console in front, and its kernel if it has one. */
export interface Front {
  readonly document: Document;
  readonly link: KernelLink | null;
}

/** The kernels of the notebooks and consoles that are open. */
export interface IKernels {
  /** The one in front; the last one while something else is. */
  readonly front: Front | null;
  /** Emitted when another one comes to the front, or its kernel, name or connection changes. */
  readonly frontChanged: ISignal<IKernels, void>;
  readonly links: Iterable<KernelLink>;
  /** Emitted when a kernel is added to `links` or taken from it. */
  readonly linksChanged: ISignal<IKernels, void>;
  /** A notebook or console of this kernel, the one in front if it is one. */
  documentOf(link: KernelLink): Document | null;
  /** Bring that one to the front. */
  bringToFront(link: KernelLink): void;
}

export const IKernels = new Token<IKernels>(
  'xla-notebook:IKernels',
  'The kernels of open notebooks and consoles, as xla_notebook knows them.'
);

/** The panel in the sidebar. */
export interface IInspector {
  /** Bring it into sight, at one of its parts and with one row opened if they are given. */
  reveal(panel?: PanelName, key?: number | string): void;
  /** Bring it into sight with the graphs of a cell. */
  revealGraphsOf(cell: Cell): void;
}

export const IInspector = new Token<IInspector>(
  'xla-notebook:IInspector',
  'The sidebar that shows graphs, buffers and events of a kernel.'
);

/** Ways from what a kernel tells to the code that caused it. */
export interface IJump {
  /** Go to a line or a cell of a kernel, or of any, or tell the user why that cannot be done. */
  open(kernelId: string | null, place: Place | null, cell: Cell | null): void;
}

export const IJump = new Token<IJump>(
  'xla-notebook:IJump',
  'Goes to the cell and line that caused a graph or an event.'
);
