import { Kernel, KernelMessage } from '@jupyterlab/services';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Client, ClientOptions } from '../store/client';
import { KernelComm } from './comm';
import { QuietMessages } from './quiet';

/** What the kernel opens for a moment when the extension is loaded (`xla_notebook/notebook/comms.py`). */
const HELLO = 'xla_notebook.hello';

/**
 * How far we have come with a kernel.
 *
 * `absent`: it does not have the extension loaded. Once `open`, the client says how the connection is.
 */
export type LinkState =
  'connecting' | 'open' | 'absent' | 'restarting' | 'dead';

/** One kernel: its client, and what keeps that connected. */
export class KernelLink implements IDisposable {
  readonly client: Client;
  readonly kernelId: string;

  private readonly connections = new Map<
    Kernel.IKernelConnection,
    { readonly quiet: QuietMessages; disconnect(): void }
  >();
  private readonly changed = new Signal<this, void>(this);
  private comm: KernelComm | null = null;
  private currentState: LinkState = 'connecting';
  // Tells an attempt to connect that another one has taken its place.
  private attempt = 0;
  private heard = false;
  private disposed = false;

  constructor(kernelId: string, options: ClientOptions) {
    this.kernelId = kernelId;
    this.client = new Client(options);
  }

  get state(): LinkState {
    return this.currentState;
  }

  get stateChanged(): ISignal<this, void> {
    return this.changed;
  }

  /** Whether this page was here when the extension was loaded, and so has seen all since. */
  get isFromStart(): boolean {
    return this.heard;
  }

  get isUnused(): boolean {
    return this.connections.size === 0;
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  /** Use `kernel`, one of possibly several connections to the same kernel. */
  add(kernel: Kernel.IKernelConnection): void {
    if (this.connections.has(kernel)) {
      return;
    }
    // JupyterLab closes comms of targets that it does not know, with an error in the console.
    const hello = kernel.handleComms
      ? registerSilently(kernel, HELLO)
      : undefined;
    const quiet = new QuietMessages(kernel);
    kernel.iopubMessage.connect(this.onMessage, this);
    kernel.statusChanged.connect(this.onStatus, this);
    kernel.disposed.connect(this.remove, this);
    this.connections.set(kernel, {
      quiet,
      disconnect: () => {
        hello?.dispose();
        quiet.dispose();
        kernel.iopubMessage.disconnect(this.onMessage, this);
        kernel.statusChanged.disconnect(this.onStatus, this);
        kernel.disposed.disconnect(this.remove, this);
      }
    });
    if (this.connections.size === 1) {
      this.reach();
    }
  }

  /** Use `kernel` no longer. */
  remove(kernel: Kernel.IKernelConnection): void {
    const wasUsed = kernel === this.kernel;
    this.connections.get(kernel)?.disconnect();
    this.connections.delete(kernel);
    if (wasUsed) {
      this.drop('its notebook was closed');
      if (!this.isUnused && !this.disposed) {
        this.reach();
      }
    }
  }

  dispose(): void {
    if (this.disposed) {
      return;
    }
    this.disposed = true;
    [...this.connections.keys()].forEach(kernel => {
      this.remove(kernel);
    });
    Signal.clearData(this);
  }

  /** The connection that is used: the first one. */
  private get kernel(): Kernel.IKernelConnection | undefined {
    return this.connections.keys().next().value;
  }

  /** Open a comm, in the place of the one there may be. */
  private reach(): void {
    const { kernel } = this;
    const quiet = kernel && this.connections.get(kernel)?.quiet;
    this.drop('connecting anew');
    if (!kernel || !quiet) {
      return;
    }
    if (kernel.status === 'dead') {
      this.setState('dead');
      return;
    }
    const attempt = this.attempt;
    this.setState('connecting');
    KernelComm.open(kernel, quiet).then(
      comm => {
        if (attempt === this.attempt) {
          this.take(comm);
        } else {
          comm?.close();
        }
      },
      (error: unknown) => {
        // After a restart or the kernel's end another attempt is under way, or none is of use.
        if (attempt === this.attempt) {
          console.warn('xla_notebook could not reach the kernel.', error);
          this.setState('absent');
        }
      }
    );
  }

  private take(comm: KernelComm | null): void {
    if (!comm) {
      this.setState('absent');
      return;
    }
    this.comm = comm;
    comm.onState(state => {
      if (state === 'closed') {
        this.drop('the extension was unloaded');
        this.setState('absent');
      }
    });
    this.client.connect(comm);
    this.setState('open');
  }

  /** End the comm there may be. */
  private drop(why: string): void {
    this.comm?.close();
    this.forget(why);
  }

  /** The comm there was has ended with its kernel process. */
  private forget(why: string): void {
    this.attempt += 1;
    if (this.comm) {
      this.comm.dispose();
      this.comm = null;
      this.client.disconnect(why);
    }
  }

  private onMessage(
    kernel: Kernel.IKernelConnection,
    message: KernelMessage.IIOPubMessage
  ): void {
    if (
      kernel === this.kernel &&
      KernelMessage.isCommOpenMsg(message) &&
      message.content.target_name === HELLO
    ) {
      this.heard = true;
      this.reach();
    }
  }

  private onStatus(
    kernel: Kernel.IKernelConnection,
    status: Kernel.Status
  ): void {
    if (kernel !== this.kernel) {
      return;
    }
    switch (status) {
      case 'restarting':
      case 'autorestarting':
        this.heard = false;
        this.forget('the kernel was restarted');
        this.setState('restarting');
        return;
      case 'terminating':
      case 'dead':
        this.forget('the kernel has ended');
        this.setState('dead');
        return;
      case 'idle':
      case 'busy':
        if (this.state === 'restarting' || this.state === 'dead') {
          this.reach();
        }
        return;
      default:
    }
  }

  private setState(state: LinkState): void {
    this.currentState = state;
    this.changed.emit();
  }
}

function registerSilently(
  kernel: Kernel.IKernelConnection,
  target: string
): IDisposable {
  const nothing = (): void => {
    // What is to be done is done in `onMessage`, for all connections.
  };
  kernel.registerCommTarget(target, nothing);
  return new DisposableDelegate(() => {
    if (!kernel.isDisposed) {
      kernel.removeCommTarget(target, nothing);
    }
  });
}
