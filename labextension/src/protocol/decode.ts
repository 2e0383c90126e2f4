import { Answer, Push } from './messages';

export const PROTOCOL = 1;

export type Incoming = Push | Answer;

/** A message that this page cannot take. Its text says why, and what to do where something can be done. */
export class MalformedMessage extends Error {}

type Check = (value: unknown) => boolean;
type Of<K extends Incoming['type']> = Extract<Incoming, { type: K }>;

// Typed so that a new kind of message, or a new field of one, breaks the build until it is listed here. Of
// rows only the key is looked at: the kernel made them with the types that this page was built from.
const SHAPES: {
  [K in Incoming['type']]: { [F in Exclude<keyof Of<K>, 'type'>]: Check };
} = {
  snapshot: {
    protocol: isNumber,
    at: isPosition,
    ack: isBoolean,
    time_ms: isNumber,
    status: isObject,
    settings: isObject,
    graphs: listOf(row => isNumber(row.graph_id)),
    buffers: listOf(row => isText(row.key)),
    events: listOf(row => isNumber(row.seq)),
    event_total: isNumber,
    counts: isObject
  },
  delta: {
    since: isPosition,
    at: isPosition,
    ack: isBoolean,
    time_ms: isNumber,
    status: isObject,
    settings: isObject,
    graphs: listOf(row => isNumber(row.graph_id)),
    graphs_gone: Array.isArray,
    buffers: listOf(row => isText(row.key)),
    buffers_gone: Array.isArray,
    events: listOf(row => isNumber(row.seq)),
    event_total: isNumber,
    counts: isObject
  },
  closed: {},
  changed: { id: isNumber, settings: isObject },
  details: {
    id: isNumber,
    graph: isObject,
    inputs: listOf(isObject),
    outputs: listOf(isObject),
    aliases: listOf(isObject),
    host_ops: listOf(isObject)
  },
  hlo: { id: isNumber, graph_id: isNumber, text: isText, ops: isObject },
  diff: { id: isNumber, lines: Array.isArray },
  rows: { id: isNumber, events: listOf(row => isNumber(row.seq)) },
  cleared: { id: isNumber, graphs: isNumber, nbytes: isNumber },
  exported: { id: isNumber, filename: isText, text: isText },
  report_text: { id: isNumber, text: isText },
  failed: {
    id: value => value === null || isNumber(value),
    code: isText,
    text: isText
  }
};

/** The message in `data` (an object, JSON text, or its bytes). Throws `MalformedMessage`. */
export function decode(data: unknown): Incoming {
  const message = parse(data);
  if (!isObject(message)) {
    throw new MalformedMessage('The kernel sent something that is no message.');
  }
  const type = message.type;
  if (!isText(type) || !Object.prototype.hasOwnProperty.call(SHAPES, type)) {
    throw new MalformedMessage(
      `The kernel sent a message of unknown type ${show(type)}. ${SAME_VERSION}`
    );
  }
  if (type === 'snapshot' && message.protocol !== PROTOCOL) {
    throw new MalformedMessage(
      `The kernel speaks protocol ${show(message.protocol)}, this page ${PROTOCOL}. ${SAME_VERSION}`
    );
  }
  const shape: Record<string, Check> = SHAPES[type as Incoming['type']];
  for (const field in shape) {
    if (!shape[field](message[field])) {
      throw new MalformedMessage(
        `The kernel's ${type} message has a wrong ${field}.`
      );
    }
  }
  return message as unknown as Incoming;
}

/** Stands in the default branch of a switch over all kinds of something: it compiles only if none is left. */
export function never(value: never): never {
  throw new TypeError(`not handled: ${show(value)}`);
}

const SAME_VERSION =
  'Reload the page; if that does not help, install the same xla-notebook in kernel and JupyterLab.';

function parse(data: unknown): unknown {
  // Not `instanceof`: the buffer may be of another window or realm.
  const isBuffer =
    Object.prototype.toString.call(data) === '[object ArrayBuffer]';
  const text =
    isBuffer || ArrayBuffer.isView(data)
      ? new TextDecoder().decode(data as ArrayBuffer)
      : data;
  if (typeof text !== 'string') {
    return text;
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new MalformedMessage('The kernel sent a text that is not JSON.');
  }
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isPosition(value: unknown): boolean {
  return isObject(value) && isNumber(value.session) && isNumber(value.look);
}

function listOf(check: (row: Record<string, unknown>) => boolean): Check {
  return value =>
    Array.isArray(value) && value.every(row => isObject(row) && check(row));
}

function show(value: unknown): string {
  return (JSON.stringify(value) as string | undefined ?? 'undefined').slice(0, 40);
}
