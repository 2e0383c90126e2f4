import {
  decode,
  Incoming,
  MalformedMessage,
  never,
  PROTOCOL
} from '../protocol/decode';
import { Delta, Settings, Snapshot } from '../protocol/messages';
import { Transport, TransportState } from '../protocol/transport';
import { Connection, connectionOf } from './connection';
import { FrameSignal, nextFrame, Schedule } from './frames';
import { Model } from './model';
import {
  AnswerTo,
  Ask,
  QuestionType,
  RequestFailed,
  Requests
} from './requests';

/** Something that went wrong, for people to read and dismiss. */
export interface Failure {
  readonly key: number;
  readonly text: string;
}

/** One who looks: nothing is pushed while no viewer sees anything. */
export interface Viewer {
  setVisible(visible: boolean): void;
  dispose(): void;
}

export interface ClientOptions {
  schedule?: Schedule;
  /** After so long without an expected answer the connection counts as stale. */
  patienceMs?: number;
}

const MOST_FAILURES = 5;

/** One kernel as the page knows it: keeps the model true, asks, and says how the connection is. */
export class Client {
  readonly model = new Model();

  // Tells this page from others that show the same widget, whose messages go to all of them.
  private readonly page = Math.floor(Math.random() * 2 ** 52);
  private readonly requests = new Requests(this.page);
  private readonly changes: FrameSignal;
  private readonly patienceMs: number;
  private readonly viewers = new Map<object, boolean>();
  private transport: Transport | null = null;
  private transportState: TransportState = 'closed';
  private disposers: (() => void)[] = [];
  private why = 'no kernel yet';
  private heardMs = Date.now();
  // Between `open` and its snapshot deltas are of no use, and no second `open` is sent.
  private opening = false;
  private visible = false;
  private failureList: readonly Failure[] = [];
  private failureKey = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private openTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: ClientOptions = {}) {
    this.changes = new FrameSignal(options.schedule ?? nextFrame);
    this.patienceMs = options.patienceMs ?? 4000;
  }

  get connection(): Connection {
    return connectionOf({
      transport: this.transportState,
      why: this.why,
      status: this.model.status,
      waiting: this.requests.waiting,
      heardMs: this.heardMs,
      nowMs: Date.now(),
      patienceMs: this.patienceMs
    });
  }

  get failures(): readonly Failure[] {
    return this.failureList;
  }

  /** Call `listener` after changes, at most once per frame, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    return this.changes.subscribe(listener);
  }

  /** Speak to a kernel through `transport`, instead of the one before; begins with an empty model. */
  connect(transport: Transport): void {
    this.disconnect('another connection took its place');
    this.model.clear();
    this.transport = transport;
    this.transportState = 'open';
    this.heardMs = Date.now();
    this.disposers = [
      transport.onMessage(data => this.receive(data)),
      transport.onState(state => this.onTransportState(state))
    ];
    this.open();
    this.changes.emit();
  }

  /** End the connection. What was known stays in the model; requests on their way are rejected. */
  disconnect(why: string): void {
    this.disposers.forEach(dispose => dispose());
    this.disposers = [];
    this.transport = null;
    this.transportState = 'closed';
    this.why = why;
    this.opening = false;
    clearTimeout(this.timer);
    clearTimeout(this.openTimer);
    this.requests.giveUp(why);
    this.changes.emit();
  }

  /**
   * Ask the kernel, and wait for its answer.
   *
   * Rejects with `RequestFailed` if the kernel refuses or the connection ends first.
   */
  request<K extends QuestionType>(ask: Ask<K>): Promise<AnswerTo<K>> {
    const transport = this.transport;
    if (!transport) {
      return Promise.reject(
        new RequestFailed('closed', `Not connected: ${this.why}.`)
      );
    }
    const answer = this.requests.ask<K>(ask, Date.now(), question =>
      transport.send(question)
    );
    this.watch();
    this.changes.emit();
    return answer;
  }

  /** The value that a setting was asked to take and has not taken yet; undefined if none is on its way. */
  pendingSetting(name: keyof Settings): boolean | string | undefined {
    let value: boolean | string | undefined;
    for (const { question } of this.requests.waiting) {
      if (question.type === 'set_setting' && question.name === name) {
        value = question.value;
      }
    }
    return value === this.model.settings?.[name] ? undefined : value;
  }

  /** Fetch up to `count` events before those that are here. */
  async loadOlder(count: number): Promise<void> {
    const events = this.model.events;
    if (!events.rows.length || !events.hasOlder) {
      return;
    }
    const before = events.rows[0].seq;
    const answer = await this.request<'get_events'>({
      type: 'get_events',
      before,
      count
    });
    // After a reset in the meantime these rows would not join those that are here now.
    if (events.rows[0]?.seq === before) {
      events.prepend(answer.events);
      this.changes.emit();
    }
  }

  /** Show `text` to the user until dismissed. */
  report(text: string): void {
    this.failureKey += 1;
    const rest = this.failureList.filter(failure => failure.text !== text);
    this.failureList = [...rest, { key: this.failureKey, text }].slice(
      -MOST_FAILURES
    );
    this.changes.emit();
  }

  dismiss(key: number): void {
    this.failureList = this.failureList.filter(failure => failure.key !== key);
    this.changes.emit();
  }

  addViewer(): Viewer {
    const viewer = {
      setVisible: (visible: boolean) => {
        this.viewers.set(viewer, visible);
        this.tellVisible();
      },
      dispose: () => {
        this.viewers.delete(viewer);
        this.tellVisible();
      }
    };
    return viewer;
  }

  private tellVisible(): void {
    const visible = [...this.viewers.values()].some(seen => seen);
    if (visible !== this.visible) {
      this.visible = visible;
      this.transport?.send({ type: 'show', visible, page: this.page });
    }
  }

  /** Ask for a snapshot, and ask again ever more seldom: the page may be faster than the kernel's comm. */
  private open(againMs = this.patienceMs): void {
    this.opening = true;
    this.transport?.send({
      type: 'open',
      protocol: PROTOCOL,
      visible: this.visible,
      page: this.page
    });
    clearTimeout(this.openTimer);
    this.openTimer = setTimeout(() => this.open(2 * againMs), againMs);
  }

  private onTransportState(state: TransportState): void {
    if (state === 'closed') {
      this.disconnect(
        'the kernel has ended or does not have the extension loaded'
      );
      return;
    }
    if (state === 'interrupted') {
      clearTimeout(this.openTimer);
    }
    const back = state === 'open' && this.transportState === 'interrupted';
    this.transportState = state;
    if (back) {
      // Nobody knows what was lost meanwhile, answers included.
      this.requests.giveUp('the connection was lost before the answer came');
      this.open();
    }
    this.changes.emit();
  }

  private receive(data: unknown): void {
    this.heardMs = Date.now();
    try {
      this.handle(decode(data));
    } catch (error) {
      if (!(error instanceof MalformedMessage)) {
        throw error;
      }
      this.report(error.message);
    }
    this.watch();
    this.changes.emit();
  }

  private handle(message: Incoming): void {
    switch (message.type) {
      case 'snapshot':
        this.opening = false;
        clearTimeout(this.openTimer);
        this.model.applySnapshot(message);
        this.acknowledge(message);
        return;
      case 'delta':
        this.handleDelta(message);
        return;
      case 'closed':
        this.disconnect('the extension was unloaded');
        return;
      case 'changed':
        this.model.settings = message.settings;
        this.requests.settle(message);
        return;
      case 'failed':
        if (message.id === null) {
          this.report(message.text);
        }
        this.requests.settle(message);
        return;
      case 'details':
      case 'hlo':
      case 'diff':
      case 'rows':
      case 'cleared':
      case 'exported':
      case 'report_text':
        this.requests.settle(message);
        return;
      default:
        never(message);
    }
  }

  private handleDelta(delta: Delta): void {
    if (this.opening) {
      return;
    }
    const applied = this.model.applyDelta(delta);
    if (applied === 'gap') {
      this.open();
    } else {
      this.acknowledge(delta);
    }
  }

  private acknowledge(push: Snapshot | Delta): void {
    if (push.ack) {
      this.transport?.send({ type: 'ack', at: push.at });
    }
  }

  /** Look again when patience with what is on its way has ended. */
  private watch(): void {
    clearTimeout(this.timer);
    if (this.requests.size) {
      this.timer = setTimeout(() => this.changes.emit(), this.patienceMs + 50);
    }
  }
}
