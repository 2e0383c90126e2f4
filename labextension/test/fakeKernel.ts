import { Answer, Push, Request } from '../src/protocol/messages';
import { Transport, TransportState } from '../src/protocol/transport';

/** The other end of a transport: keeps what the page sent, and says what it is told to. */
export class FakeKernel implements Transport {
  readonly sent: Request[] = [];
  /** Called for each request, where a test wants answers without being asked. */
  onRequest: (request: Request) => void = () => undefined;
  private readonly messageListeners = new Set<(data: unknown) => void>();
  private readonly stateListeners = new Set<(state: TransportState) => void>();

  send(request: Request): void {
    this.sent.push(request);
    this.onRequest(request);
  }

  onMessage(listener: (data: unknown) => void): () => void {
    this.messageListeners.add(listener);
    return () => this.messageListeners.delete(listener);
  }

  onState(listener: (state: TransportState) => void): () => void {
    this.stateListeners.add(listener);
    return () => this.stateListeners.delete(listener);
  }

  /** Say something well formed, as the bytes that a kernel sends. */
  say(message: Push | Answer): void {
    this.sayRaw(new TextEncoder().encode(JSON.stringify(message)));
  }

  sayRaw(data: unknown): void {
    [...this.messageListeners].forEach(listener => listener(data));
  }

  become(state: TransportState): void {
    [...this.stateListeners].forEach(listener => listener(state));
  }

  get isListenedTo(): boolean {
    return this.messageListeners.size + this.stateListeners.size > 0;
  }

  /** The last request of a type. Throws if there is none. */
  last<K extends Request['type']>(type: K): Extract<Request, { type: K }> {
    const found = this.sent.filter(request => request.type === type);
    if (!found.length) {
      throw new Error(`no ${type} was sent`);
    }
    return found[found.length - 1] as Extract<Request, { type: K }>;
  }

  count(type: Request['type']): number {
    return this.sent.filter(request => request.type === type).length;
  }
}
