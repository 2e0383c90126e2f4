import { Kernel, KernelMessage } from '@jupyterlab/services';

/** Begins the ids of our messages, whatever page they are from: what the kernel says of one comes to all pages. */
const OURS = 'xla-notebook-';
// What no one takes for the status of the kernel.
const HANDLED = 'xla_notebook_handled' as 'status';

/**
 * Keeps the kernel's busy indicator out of our messages.
 *
 * A kernel says `busy` and `idle` around each message that it handles, on whatever thread. For JupyterLab that
 * is the status of the kernel, so that a page that says ten times a second how far it is would make the
 * indicator flicker, and show an idle kernel in the middle of a cell. That a message was handled is known
 * from the same words, so that it is found out here and not by JupyterLab's futures.
 */
export class QuietMessages {
  private readonly ends = new Map<string, () => void>();

  constructor(private readonly kernel: Kernel.IKernelConnection) {
    kernel.anyMessage.connect(this.onMessage, this);
  }

  /** Send a message on the shell channel, and wait until the kernel has handled it. */
  sendShell(message: KernelMessage.IShellMessage): Promise<void> {
    const id = mark(message);
    const future = this.kernel.sendShellMessage(message, false, true);
    return untilDone(future, resolve => {
      this.ends.set(id, resolve);
    });
  }

  /** Send a request on the control channel, and wait for the reply. */
  sendControl(
    message: KernelMessage.IControlMessage
  ): Promise<KernelMessage.IControlMessage> {
    mark(message);
    const future = this.kernel.sendControlMessage(message, true, true);
    return untilDone(future, resolve => {
      future.onReply = resolve;
    });
  }

  dispose(): void {
    this.kernel.anyMessage.disconnect(this.onMessage, this);
    this.ends.clear();
  }

  // Called before the connection handles the message.
  private onMessage(
    _: Kernel.IKernelConnection,
    { msg, direction }: Kernel.IAnyMessageArgs
  ): void {
    if (direction !== 'recv' || !KernelMessage.isStatusMsg(msg)) {
      return;
    }
    const { msg_id: id } = msg.parent_header as Partial<KernelMessage.IHeader>;
    if (!id?.startsWith(OURS)) {
      return;
    }
    msg.header.msg_type = HANDLED;
    if (msg.content.execution_state === 'idle') {
      this.ends.get(id)?.();
      this.ends.delete(id);
    }
  }
}

/** Give a message an id by which all pages know it as ours. */
function mark(message: KernelMessage.IMessage): string {
  message.header.msg_id = OURS + message.header.msg_id;
  return message.header.msg_id;
}

/** What `begin` resolves with; rejects if the kernel is restarted or ends first. */
function untilDone<T>(
  future: Kernel.IShellFuture | Kernel.IControlFuture,
  begin: (resolve: (value: T) => void) => void
): Promise<T> {
  const done = new Promise<T>((resolve, reject) => {
    begin(value => {
      resolve(value);
      future.dispose();
    });
    future.done.catch(reject);
  });
  // Only those who wait need to know.
  done.catch(() => undefined);
  return done;
}
