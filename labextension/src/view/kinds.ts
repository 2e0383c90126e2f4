/** The kernel's words, and what people read for them. Typed so that a new word breaks the build until it is here. */
import { Buffer, EventRow, Graph, Owner } from '../protocol/messages';

// Never within a text that is translated: JupyterLab's translations make one `%` of two.
export const COMPILE_MAGIC = '%%xla_compile';

export type GraphState = Graph['state'];
export type BufferState = Buffer['state'];
export type OwnerKind = Owner['kind'];
export type EventKind = EventRow['kind'];

export const GRAPH_STATES: Record<GraphState, string> = {
  warm: 'its executable is in XLA’s cache',
  cold: 'traced, not compiled yet',
  evicted: 'XLA dropped its executable; the next call compiles again',
  dropped: 'no longer cached'
};

export const BUFFER_STATES: Record<BufferState, string> = {
  live: 'holds its value',
  pending: 'not computed yet; looking at it here does not compute it',
  donated: 'its memory was given to another buffer',
  deleted: 'gone',
  stale: 'gone, but a graph still counts on it'
};

export const OWNER_KINDS: Record<OwnerKind, string> = {
  saved: 'kept by graphs',
  module: 'modules',
  optimizer: 'optimizers',
  gradient: 'gradients',
  variable: 'variables',
  output: 'cell outputs',
  traceback: 'the last error’s frames'
};

export const REASONS: Record<Graph['reason'], string> = {
  first: 'first call',
  sizes: 'other sizes',
  donated: 'a saved buffer was donated',
  donation: 'another choice of donated inputs',
  evicted: 'XLA had dropped it',
  cleared: 'the cache was cleared',
  sharding: 'another sharding'
};

export type Lane =
  | 'cells'
  | 'traces'
  | 'warm-ups'
  | 'runs'
  | 'barriers'
  | 'donations'
  | 'hazards'
  | 'other';

export const LANES: readonly Lane[] = [
  'cells',
  'traces',
  'warm-ups',
  'runs',
  'barriers',
  'donations',
  'hazards',
  'other'
];

export const LANE_OF: Record<EventKind, Lane> = {
  cell: 'cells',
  traced: 'traces',
  recompiled: 'traces',
  warming: 'warm-ups',
  warmed: 'warm-ups',
  barrier: 'barriers',
  forced: 'barriers',
  host: 'barriers',
  donation: 'donations',
  refused: 'donations',
  hazard: 'hazards',
  frozen: 'hazards',
  evicted: 'other',
  dropped: 'other',
  setting: 'other'
};

export const EVENT_KINDS = Object.keys(LANE_OF) as EventKind[];
