import { Cell, Status } from '../protocol/messages';
import { TransportState } from '../protocol/transport';
import { QuestionType, Waiting } from './requests';

/**
 * How the page stands to the kernel.
 *
 * `busy`: a cell runs, and pushes and answers come all the same. `waiting`: `count` requests are served when
 * the cell ends. `stale`: no answer is coming although one should; what is shown is as of `sinceMs`, by the
 * page's clock.
 */
export type Connection =
  | { kind: 'connecting' }
  | { kind: 'live' }
  | { kind: 'busy'; cell: Cell }
  | { kind: 'waiting'; cell: Cell; count: number }
  | { kind: 'stale'; sinceMs: number }
  | { kind: 'disconnected'; why: string };

// These need the main thread, so that they wait for the cell's end in any kernel.
const AT_CELL_END: ReadonlySet<QuestionType> = new Set<QuestionType>([
  'get_hlo',
  'get_diff',
  'clear',
  'get_export',
  'get_report'
]);

/** Whether a request of this kind would be served at once. */
export function isServedNow(status: Status, type: QuestionType): boolean {
  return !status.busy || (status.prompt && !AT_CELL_END.has(type));
}

export function connectionOf(facts: {
  transport: TransportState;
  why: string;
  status: Status | null;
  waiting: Iterable<Waiting>;
  heardMs: number;
  nowMs: number;
  patienceMs: number;
}): Connection {
  if (facts.transport === 'closed') {
    return { kind: 'disconnected', why: facts.why };
  }
  if (facts.transport === 'interrupted') {
    return { kind: 'stale', sinceMs: facts.heardMs };
  }
  const status = facts.status;
  if (!status) {
    return { kind: 'connecting' };
  }
  let count = 0;
  for (const { question, sentMs } of facts.waiting) {
    if (!isServedNow(status, question.type)) {
      count += 1;
    } else if (
      facts.nowMs - Math.max(sentMs, facts.heardMs) >
      facts.patienceMs
    ) {
      return { kind: 'stale', sinceMs: facts.heardMs };
    }
  }
  if (!status.busy) {
    return { kind: 'live' };
  }
  return count
    ? { kind: 'waiting', cell: status.busy, count }
    : { kind: 'busy', cell: status.busy };
}
