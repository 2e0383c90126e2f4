/* Generated from xla_notebook/protocol/messages.py by "make protocol": do not edit. */

/**
 * Messages between kernel and page, version 1.
 */
export type Message = Push | Answer | Request;
export type Push = Snapshot | Delta | Closed;
export type Answer = Changed | Details | Hlo | Diff | Rows | Cleared | Exported | ReportText | Failed;
export type Request =
  Open | Ack | Show | SetSetting | GetDetails | GetHlo | GetDiff | GetEvents | Clear | GetExport | GetReport;

/**
 * Everything, with the last events; `event_total` counts those that are held in the kernel.
 *
 * `ack`: whether the page is to say that it has this.
 */
export interface Snapshot {
  type: 'snapshot';
  protocol: 1;
  at: Position;
  ack: boolean;
  time_ms: number;
  status: Status;
  settings: Settings;
  graphs: Graph[];
  buffers: Buffer[];
  events: EventRow[];
  event_total: number;
  counts: {
    [k: string]: number;
  };
}
/**
 * How far a page has seen: the session's number, and the number of looks at the buffers.
 */
export interface Position {
  session: number;
  look: number;
}
/**
 * The kernel at this moment.
 *
 * `busy`: the cell that runs. `prompt`: requests are served while a cell runs; where the kernel or the front
 * end has no subshells they wait for its end. `looked_ms`: when the buffers were looked at last.
 */
export interface Status {
  device: string;
  busy: Cell | null;
  prompt: boolean;
  looked_ms: number | null;
  buffers_complete: boolean;
}
/**
 * A run of a notebook cell: 7 for ``In[7]``, and the notebook's id of the cell where the front end gives one.
 */
export interface Cell {
  execution_count: number;
  cell_id: string | null;
}
/**
 * All settings (see `xla_notebook.session.settings.Settings`).
 */
export interface Settings {
  warm_up: 'compile' | 'execute' | 'off';
  guard: boolean;
  saved_buffers: 'copy' | 'share';
  on_donated: 'raise' | 'recover';
  freeze: 'error' | 'off' | 'warn';
  watch_donations: boolean;
  watch_reads: boolean;
}
/**
 * A cached graph, as a row of the table. What is long (inputs, outputs) is in `Details`.
 *
 * `causes` is empty for a function's first compile. `compile_ns` is of a compile that XLA's cache did not save
 * (`compiled`). `run_ns` is the mean host time of a run, None if it was not taken.
 */
export interface Graph {
  graph_id: number;
  name: string;
  kind: 'backward' | 'forward' | 'inference' | 'optimizer';
  state: 'cold' | 'dropped' | 'evicted' | 'warm';
  hash: string;
  place: Place | null;
  cell: Cell | null;
  inputs: string;
  input_count: number;
  output_count: number;
  causes: Cause[];
  reason: 'cleared' | 'donated' | 'donation' | 'evicted' | 'first' | 'sharding' | 'sizes';
  warm_up: ('compile' | 'execute' | 'off') | null;
  op_count: number;
  host_op_count: number;
  saved_count: number;
  saved_nbytes: number;
  trace_ns: number;
  compile_ns: number;
  compiled: boolean;
  traces: number;
  runs: number;
  run_ns: number | null;
  time_ms: number;
}
/**
 * A line of the user's code, and the cell that holds it. `text` says it in words: ``cell 3, line 7``.
 */
export interface Place {
  text: string;
  filename: string | null;
  line: number | null;
  cell: Cell | null;
}
/**
 * Why something was compiled again, what would avoid it, and what Dynamo said.
 */
export interface Cause {
  what: string;
  fix: string | null;
  guard: string | null;
}
/**
 * A device buffer, or a tensor whose value is pending (`handle` is None). `key` is the same at each look.
 */
export interface Buffer {
  key: string;
  handle: number | null;
  shape: number[];
  dtype: string;
  nbytes: number;
  state: 'deleted' | 'donated' | 'live' | 'pending' | 'stale';
  owners: Owner[];
  tensors: number;
}
/**
 * Who keeps a buffer: a variable, a module, a graph (`graph_id`), ...
 */
export interface Owner {
  kind: 'gradient' | 'module' | 'optimizer' | 'output' | 'saved' | 'traceback' | 'variable';
  name: string;
  graph_id: number | null;
}
/**
 * Something that happened, in a sentence.
 *
 * Of a donation or a hazard, `name` and `handle` are those of the buffer that died, and `taker_handle` is that of
 * the buffer in its memory.
 */
export interface EventRow {
  seq: number;
  time_ms: number;
  kind:
    | 'barrier'
    | 'cell'
    | 'donation'
    | 'dropped'
    | 'evicted'
    | 'forced'
    | 'frozen'
    | 'hazard'
    | 'host'
    | 'recompiled'
    | 'refused'
    | 'setting'
    | 'traced'
    | 'warmed'
    | 'warming';
  text: string;
  place: Place | null;
  cell: Cell | null;
  graph_id: number | null;
  name: string | null;
  handle: number | null;
  taker_handle: number | null;
}
/**
 * What changed between two positions: changed rows whole, and keys of those gone. `ack` as in `Snapshot`.
 */
export interface Delta {
  type: 'delta';
  since: Position;
  at: Position;
  ack: boolean;
  time_ms: number;
  status: Status;
  settings: Settings;
  graphs: Graph[];
  graphs_gone: number[];
  buffers: Buffer[];
  buffers_gone: string[];
  events: EventRow[];
  event_total: number;
  counts: {
    [k: string]: number;
  };
}
/**
 * The kernel's side ends (the extension was unloaded).
 */
export interface Closed {
  type: 'closed';
}
/**
 * The settings after a `SetSetting`.
 */
export interface Changed {
  type: 'changed';
  id: number;
  settings: Settings;
}
/**
 * One graph whole.
 */
export interface Details {
  type: 'details';
  id: number;
  graph: Graph;
  inputs: Input[];
  outputs: Tensor[];
  aliases: Alias[];
  host_ops: HostOp[];
}
/**
 * An input of a graph: what brings it, and its name in the user's words.
 */
export interface Input {
  name: string;
  kind: 'argument' | 'attribute' | 'saved' | 'seed';
  tensor: Tensor;
}
/**
 * What a tensor looks like.
 */
export interface Tensor {
  shape: number[];
  dtype: string;
  nbytes: number;
}
/**
 * The output at position `output` is the new value of the input at `input`, or (`reused`) has its memory.
 */
export interface Alias {
  input: number;
  output: number;
  reused: boolean;
}
/**
 * An op that runs on the host, around which the graph was split.
 */
export interface HostOp {
  target: string;
  why: string;
  source: string | null;
}
/**
 * A graph's HLO text with the user's source lines, and how often each op occurs in it.
 */
export interface Hlo {
  type: 'hlo';
  id: number;
  graph_id: number;
  text: string;
  ops: {
    [k: string]: number;
  };
}
/**
 * A unified diff of two graphs' HLO without numbering and metadata; no lines if they are the same.
 */
export interface Diff {
  type: 'diff';
  id: number;
  lines: string[];
}
/**
 * Older events, oldest first.
 */
export interface Rows {
  type: 'rows';
  id: number;
  events: EventRow[];
}
/**
 * How many graphs were dropped, and how many bytes no other owner keeps.
 */
export interface Cleared {
  type: 'cleared';
  id: number;
  graphs: number;
  nbytes: number;
}
/**
 * The session as the JSON text that ``python -m xla_notebook show FILE`` reads.
 */
export interface Exported {
  type: 'exported';
  id: number;
  filename: string;
  text: string;
}
/**
 * The graphs, buffers and causes as plain text.
 */
export interface ReportText {
  type: 'report_text';
  id: number;
  text: string;
}
/**
 * A request was not served, and nothing was changed. `id` is None if the message had none that could be read.
 */
export interface Failed {
  type: 'failed';
  id: number | null;
  code: 'failed' | 'gone' | 'malformed' | 'protocol' | 'setting';
  text: string;
}
/**
 * Begin, or begin anew: the kernel pushes a `Snapshot` and goes on with deltas.
 *
 * A widget's messages reach all pages that show its notebook; `page` tells them apart.
 */
export interface Open {
  type: 'open';
  protocol: number;
  visible?: boolean;
  page?: number;
}
/**
 * All up to this position is on the page: said after a push that asks for it.
 */
export interface Ack {
  type: 'ack';
  at: Position;
}
/**
 * Whether anyone can see the page. Nothing is pushed to one that is hidden.
 */
export interface Show {
  type: 'show';
  visible: boolean;
  page?: number;
}
/**
 * Change one setting, at once, also while a cell runs. Answered by `Changed`.
 */
export interface SetSetting {
  type: 'set_setting';
  id: number;
  name: string;
  value: boolean | string;
}
/**
 * Answered by `Details`.
 */
export interface GetDetails {
  type: 'get_details';
  id: number;
  graph_id: number;
}
/**
 * Answered by `Hlo`, at the end of the cell if one runs.
 */
export interface GetHlo {
  type: 'get_hlo';
  id: number;
  graph_id: number;
}
/**
 * Answered by `Diff`, at the end of the cell if one runs.
 */
export interface GetDiff {
  type: 'get_diff';
  id: number;
  first: number;
  second: number;
}
/**
 * Up to `count` events before number `before`. Answered by `Rows`.
 */
export interface GetEvents {
  type: 'get_events';
  id: number;
  before: number;
  count: number;
}
/**
 * Drop all cached graphs with their saved buffers, at the end of the cell if one runs. Answered by `Cleared`.
 */
export interface Clear {
  type: 'clear';
  id: number;
}
/**
 * Answered by `Exported`, at the end of the cell if one runs.
 */
export interface GetExport {
  type: 'get_export';
  id: number;
}
/**
 * Answered by `ReportText`, at the end of the cell if one runs.
 */
export interface GetReport {
  type: 'get_report';
  id: number;
}
