import { Answer, Failed, Request } from '../protocol/messages';

/** The requests that are answered. */
export type Question = Extract<Request, { id: number }>;
export type QuestionType = Question['type'];

// What answers what. Typed so that a new request breaks the build until it is listed.
const ANSWERS = {
  set_setting: 'changed',
  get_details: 'details',
  get_hlo: 'hlo',
  get_diff: 'diff',
  get_events: 'rows',
  clear: 'cleared',
  get_export: 'exported',
  get_report: 'report_text'
} as const satisfies Record<
  QuestionType,
  Exclude<Answer['type'], Failed['type']>
>;

export type AnswerTo<K extends QuestionType> = Extract<
  Answer,
  { type: (typeof ANSWERS)[K] }
>;

/** A question without its number. */
export type Ask<K extends QuestionType = QuestionType> = K extends QuestionType
  ? Omit<Extract<Question, { type: K }>, 'id'>
  : never;

/** A request that is not answered yet. */
export interface Waiting {
  readonly question: Question;
  readonly sentMs: number;
}

/** Why a request came to nothing. `code` is the kernel's, or `closed` where the connection ended before. */
export class RequestFailed extends Error {
  constructor(
    readonly code: Failed['code'] | 'closed',
    text: string
  ) {
    super(text);
  }
}

interface Entry extends Waiting {
  resolve(answer: Answer): void;
  reject(error: RequestFailed): void;
}

/** The requests on their way. Each is settled exactly once: answered, refused, or given up at the end. */
export class Requests {
  private readonly entries = new Map<number, Entry>();

  /**
   * Numbers begin at `next`: a random one, so that a page does not take for its own an answer to another page
   * of the same widget, or to itself before it was loaded anew.
   */
  constructor(private next: number) {}

  get waiting(): Iterable<Waiting> {
    return this.entries.values();
  }

  get size(): number {
    return this.entries.size;
  }

  /** Give `ask` a number, hand it to `send`, and wait for its answer. */
  ask<K extends QuestionType>(
    ask: Ask<K>,
    sentMs: number,
    send: (question: Question) => void
  ): Promise<AnswerTo<K>> {
    const question = { ...ask, id: this.next++ };
    return new Promise((resolve, reject) => {
      this.entries.set(question.id, {
        question,
        sentMs,
        resolve: answer => resolve(answer as AnswerTo<K>),
        reject
      });
      send(question);
    });
  }

  /** Settle the request that `answer` is for. Others' answers and second ones are for nobody here. */
  settle(answer: Answer): void {
    const entry = answer.id === null ? undefined : this.entries.get(answer.id);
    if (!entry) {
      return;
    }
    this.entries.delete(entry.question.id);
    if (answer.type === 'failed') {
      entry.reject(new RequestFailed(answer.code, answer.text));
    } else if (answer.type === ANSWERS[entry.question.type]) {
      entry.resolve(answer);
    } else {
      entry.reject(
        new RequestFailed(
          'failed',
          `The kernel answered ${entry.question.type} with ${answer.type}.`
        )
      );
    }
  }

  giveUp(why: string): void {
    const entries = [...this.entries.values()];
    this.entries.clear();
    entries.forEach(entry => entry.reject(new RequestFailed('closed', why)));
  }
}
