import { Request } from './messages';

/** `interrupted`: the connection is lost for now, and may come back by itself. */
export type TransportState = 'open' | 'interrupted' | 'closed';

/**
 * A way to the kernel: a widget's messages or a comm of JupyterLab's.
 *
 * Both listeners are called until what `onMessage` or `onState` returned is called.
 */
export interface Transport {
  send(request: Request): void;
  /** Gets each message as it came: an object, JSON text, or its bytes. */
  onMessage(listener: (data: unknown) => void): () => void;
  /** Gets each later state; a transport that is handed out is open. */
  onState(listener: (state: TransportState) => void): () => void;
}
