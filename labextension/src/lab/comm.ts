import {
  CommsOverSubshells,
  Kernel,
  KernelMessage
} from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { Request } from '../protocol/messages';
import { Transport, TransportState } from '../protocol/transport';
import { QuietMessages } from './quiet';
import { endSubshell, startSubshell } from './subshell';

/** What the kernel's side listens to (`xla_notebook/notebook/comms.py`). */
const TARGET = 'xla_notebook';

type CommMessageType = 'comm_open' | 'comm_msg' | 'comm_close';

/**
 * A comm of one kernel, as a transport.
 *
 * Messages are sent by hand, because JupyterLab's own comms cannot be told which subshell to use, and do not
 * work for a console that shares the kernel of a notebook.
 */
export class KernelComm implements Transport, IDisposable {
  /** Open a comm, once the kernel serves it. Gives null where the kernel has no such target. */
  static async open(
    kernel: Kernel.IKernelConnection,
    quiet: QuietMessages
  ): Promise<KernelComm | null> {
    const subshell = await startSubshell(kernel, quiet);
    const comm = new KernelComm(kernel, subshell, quiet);
    try {
      await comm.post('comm_open', { target_name: TARGET, data: {} });
    } catch (error) {
      // The kernel was restarted, or has ended.
      comm.dispose();
      throw error;
    }
    if (comm.isClosed) {
      comm.close();
      return null;
    }
    return comm;
  }

  private readonly id = UUID.uuid4();
  // Without it JupyterLab reports in the console that the kernel closes a comm that it does not know.
  private readonly known: Kernel.IComm | null;
  private readonly messages = new Signal<this, unknown>(this);
  private readonly states = new Signal<this, TransportState>(this);
  private isClosed = false;
  private disposed = false;

  private constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly subshell: string | null,
    private readonly quiet: QuietMessages
  ) {
    this.known = kernel.handleComms ? kernel.createComm(TARGET, this.id) : null;
    if (this.known) {
      this.known.commsOverSubshells = CommsOverSubshells.Disabled;
    }
    kernel.iopubMessage.connect(this.onMessageReceived, this);
    kernel.connectionStatusChanged.connect(this.onConnectionStatus, this);
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  send(request: Request): void {
    if (!this.isClosed && !this.kernel.isDisposed) {
      void this.post('comm_msg', { data: request as unknown as JSONObject });
    }
  }

  onMessage(listener: (data: unknown) => void): () => void {
    return connect(this.messages, listener);
  }

  onState(listener: (state: TransportState) => void): () => void {
    return connect(this.states, listener);
  }

  /** End the comm, and tell the kernel. */
  close(): void {
    if (!this.disposed && !this.kernel.isDisposed) {
      if (!this.isClosed) {
        void this.post('comm_close', { data: {} });
      }
      if (this.subshell !== null) {
        endSubshell(this.kernel, this.quiet, this.subshell);
      }
    }
    this.dispose();
  }

  /** End the comm on this side: the kernel is not the one that it was. */
  dispose(): void {
    if (this.disposed) {
      return;
    }
    this.disposed = true;
    this.kernel.iopubMessage.disconnect(this.onMessageReceived, this);
    this.kernel.connectionStatusChanged.disconnect(
      this.onConnectionStatus,
      this
    );
    this.isClosed = true;
    this.known?.dispose();
    Signal.clearData(this);
  }

  private post(msgType: CommMessageType, content: JSONObject): Promise<void> {
    const options = {
      msgType,
      channel: 'shell',
      username: this.kernel.username,
      session: this.kernel.clientId,
      subshellId: this.subshell,
      content: { comm_id: this.id, ...content }
    };
    return this.quiet.sendShell(
      KernelMessage.createMessage(
        options as KernelMessage.IOptions<KernelMessage.ICommMsgMsg<'shell'>>
      )
    );
  }

  private onMessageReceived(
    _: Kernel.IKernelConnection,
    message: KernelMessage.IIOPubMessage
  ): void {
    if (
      KernelMessage.isCommMsgMsg(message) &&
      message.content.comm_id === this.id
    ) {
      this.messages.emit(message.buffers?.[0]);
    } else if (
      KernelMessage.isCommCloseMsg(message) &&
      message.content.comm_id === this.id
    ) {
      this.isClosed = true;
      this.states.emit('closed');
    }
  }

  private onConnectionStatus(
    _: Kernel.IKernelConnection,
    status: Kernel.ConnectionStatus
  ): void {
    this.states.emit(status === 'connected' ? 'open' : 'interrupted');
  }
}

function connect<T>(
  signal: Signal<unknown, T>,
  listener: (value: T) => void
): () => void {
  const slot = (_: unknown, value: T): void => {
    listener(value);
  };
  signal.connect(slot);
  return () => {
    signal.disconnect(slot);
  };
}
