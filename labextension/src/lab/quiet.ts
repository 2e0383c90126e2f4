import { Kernel, KernelMessage } from '@jupyterlab/services';

import { Ack } from '../protocol/messages';

/** Begins the ids of our messages, whatever page they are from: what the kernel says of one comes to all pages. */
const OURS = 'xla-notebook-';
// What no one takes for the status of the kernel.
const HANDLED = 'xla_notebook_handled' as 'status';
// JupyterLab, from 4.5 on, does not take the status that comes with such a message for the kernel's.
const UNTRACKED = 'comm_info_request';

/**
 * Keeps the kernel's busy indicator out of our messages.
 *
 * A kernel says `busy` and `idle` around each message that it handles, on whatever thread. For JupyterLab that
 * is the status of the kernel, so that a page that says ten times a second how far it is would make the
 * indicator flicker, and show an idle kernel in the middle of a cell. That a message was handled is known
 * from the same words, so that it is found out here and not by JupyterLab's futures.
 *
 * A widget tells as often how far it is. Its messages are JupyterLab's, and JupyterLab has to hear of their ends.
 */
export class QuietMessages {
  private readonly ends = new Map<string, () => void>();
  private readonly ofWidgets = new Set<string>();

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
    if (direction === 'send') {
      if (isAckOfWidget(msg)) {
        this.ofWidgets.add(msg.header.msg_id);
      }
    } else if (KernelMessage.isStatusMsg(msg)) {
      this.onStatus(msg);
    }
  }

  private onStatus(status: KernelMessage.IStatusMsg): void {
    const parent = status.parent_header as Partial<KernelMessage.IHeader>;
    const id = parent.msg_id ?? '';
    if (id.startsWith(OURS)) {
      status.header.msg_type = HANDLED;
    } else if (this.ofWidgets.has(id)) {
      parent.msg_type = UNTRACKED;
    }
    if (status.content.execution_state === 'idle') {
      this.ends.get(id)?.();
      this.ends.delete(id);
      this.ofWidgets.delete(id);
    }
  }
}

/** Whether this is the protocol's message `ack`, as a widget sends it. */
function isAckOfWidget(message: KernelMessage.IMessage): boolean {
  if (!KernelMessage.isCommMsgMsg(message)) {
    return false;
  }
  const { method, content } = message.content.data as {
    method?: string;
    content?: Partial<Ack>;
  };
  return (
    method === 'custom' &&
    content?.type === 'ack' &&
    typeof content.at?.look === 'number'
  );
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
