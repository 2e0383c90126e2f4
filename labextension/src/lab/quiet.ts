import { Kernel, KernelMessage } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';

// JupyterLab does not take the status that comes with such a message for the kernel's.
const UNTRACKED = 'comm_info_request';

/**
 * Keeps the kernel's busy indicator out of our messages.
 *
 * A kernel says `busy` and `idle` around each message that it handles, on whatever thread. For JupyterLab that
 * is the status of the kernel, so that a page that says ten times a second how far it is would make the
 * indicator flicker, and show an idle kernel in the middle of a cell.
 */
export class QuietMessages implements IDisposable {
  private readonly sent = new Set<string>();

  constructor(private readonly kernel: Kernel.IKernelConnection) {
    kernel.anyMessage.connect(this.onMessage, this);
  }

  get isDisposed(): boolean {
    return this.kernel.isDisposed;
  }

  /** Send a message on the shell channel. */
  sendShell(message: KernelMessage.IShellMessage): Kernel.IShellFuture {
    this.sent.add(message.header.msg_id);
    return this.kernel.sendShellMessage(message, false, true);
  }

  /** Send a request on the control channel. */
  sendControl(message: KernelMessage.IControlMessage): Kernel.IControlFuture {
    this.sent.add(message.header.msg_id);
    return this.kernel.sendControlMessage(message, true, true);
  }

  dispose(): void {
    this.kernel.anyMessage.disconnect(this.onMessage, this);
  }

  // Called before the connection handles the message.
  private onMessage(
    _: Kernel.IKernelConnection,
    { msg, direction }: Kernel.IAnyMessageArgs
  ): void {
    if (direction !== 'recv' || !KernelMessage.isStatusMsg(msg)) {
      return;
    }
    const parent = msg.parent_header as Partial<KernelMessage.IHeader>;
    if (!parent.msg_id || !this.sent.has(parent.msg_id)) {
      return;
    }
    parent.msg_type = UNTRACKED;
    if (msg.content.execution_state === 'idle') {
      this.sent.delete(parent.msg_id);
    }
  }
}
