import {
  CommsOverSubshells,
  Kernel,
  KernelMessage
} from '@jupyterlab/services';

import { QuietMessages } from './quiet';

const INFO_MS = 1_000;
// A connection that cannot get the kernel's info holds messages back for about 3 s.
const REPLY_MS = 10_000;

/**
 * Start a subshell: a thread of the kernel that handles our messages while a cell runs.
 *
 * Gives its id, or null where the kernel has none or the user has switched them off: messages then wait for
 * the end of the cell. JupyterLab makes subshells for comms itself, but only where it knows that the kernel
 * supports them. After a reload of the page in the middle of a cell it does not: it asks for the kernel's info
 * on the main shell, which is busy. So we ask for a subshell ourselves, on the control channel, which never is.
 */
export async function startSubshell(
  kernel: Kernel.IKernelConnection,
  quiet: QuietMessages
): Promise<string | null> {
  if (kernel.commsOverSubshells === CommsOverSubshells.Disabled) {
    return null;
  }
  const info = await within(INFO_MS, kernel.info);
  if (info && !kernel.supportsSubshells) {
    return null;
  }
  const request =
    KernelMessage.createMessage<KernelMessage.ICreateSubshellRequestMsg>({
      msgType: 'create_subshell_request',
      channel: 'control',
      username: kernel.username,
      session: kernel.clientId,
      content: {}
    });
  const reply = await within(REPLY_MS, quiet.sendControl(request));
  // A kernel without subshells that does answer says that it does not know the request.
  const content = reply?.content as { subshell_id?: string } | undefined;
  return content?.subshell_id ?? null;
}

/** Ask the kernel to end a subshell. */
export function endSubshell(
  kernel: Kernel.IKernelConnection,
  quiet: QuietMessages,
  subshellId: string
): void {
  void quiet.sendControl(
    KernelMessage.createMessage<KernelMessage.IDeleteSubshellRequestMsg>({
      msgType: 'delete_subshell_request',
      channel: 'control',
      username: kernel.username,
      session: kernel.clientId,
      content: { subshell_id: subshellId }
    })
  );
}

/** What `promise` gives, or null if that takes longer. */
function within<T>(timeMs: number, promise: Promise<T>): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      resolve(null);
    }, timeMs);
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
    });
  });
}
