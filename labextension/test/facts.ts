/** Made-up facts of a session, as the kernel sends them. */
import {
  Buffer,
  Delta,
  Details,
  EventRow,
  Graph,
  Settings,
  Snapshot,
  Status
} from '../src/protocol/messages';

export const T0 = Date.UTC(2026, 0, 5, 9, 30);

export const SETTINGS: Settings = {
  warm_up: 'compile',
  guard: true,
  saved_buffers: 'share',
  on_donated: 'recover',
  freeze: 'off',
  watch_donations: false,
  watch_reads: false
};

export const STATUS: Status = {
  device: 'CPU',
  busy: null,
  prompt: true,
  looked_ms: T0,
  buffers_complete: true
};

export function cell(count: number): {
  execution_count: number;
  cell_id: string;
} {
  return { execution_count: count, cell_id: `cell-${count}` };
}

export function graph(id: number, over: Partial<Graph> = {}): Graph {
  const count = 1 + (id % 40);
  return {
    graph_id: id,
    name: id % 3 ? `train_step #${id}` : `evaluate #${id}`,
    kind: 'inference',
    state: 'warm',
    hash: (id * 2654435761).toString(16).padStart(32, 'a7'),
    place: {
      text: `cell ${count}, line 7`,
      filename: `/tmp/ipykernel_1/${count}.py`,
      line: 7,
      cell: cell(count)
    },
    cell: cell(count),
    inputs: `float32 ${8 + (id % 5)}x128, int64 ${8 + (id % 5)}`,
    input_count: 14,
    output_count: 6,
    causes:
      id % 4
        ? []
        : [
            {
              what: `the size of x changed from ${8 + (id % 5)} to 16`,
              fix: 'pad the last batch, or drop it',
              guard: "L['x'].size()[0] == 16"
            }
          ],
    reason: id % 4 ? 'first' : 'sizes',
    warm_up: 'compile',
    op_count: 120 + id,
    host_op_count: 0,
    saved_count: 12,
    saved_nbytes: 4096 * (1 + (id % 97)),
    trace_ns: 12_000_000 + id * 1000,
    compile_ns: 800_000_000 + id * 1e6,
    compiled: true,
    traces: 1,
    runs: id * 3,
    run_ns: 350_000 + id * 100,
    time_ms: T0 + id * 1000,
    ...over
  };
}

const KINDS = ['module', 'optimizer', 'saved', 'variable', 'gradient'] as const;

export function buffer(index: number, over: Partial<Buffer> = {}): Buffer {
  const kind = KINDS[index % KINDS.length];
  const name =
    kind === 'saved'
      ? `train_step #${index}: constant 0`
      : `model.layers[${index}].weight`;
  return {
    key: `h${index}`,
    handle: 0x7f00_0000 + index * 64,
    shape: [64, 1 + (index % 512)],
    dtype: index % 7 ? 'float32' : 'bfloat16',
    nbytes: 256 * (1 + (index % 512)),
    state: 'live',
    owners: [{ kind, name, graph_id: kind === 'saved' ? index % 100 : null }],
    tensors: 1,
    ...over
  };
}

const EVENTS: readonly [EventRow['kind'], string][] = [
  ['traced', 'train_step traced in 12.0 ms'],
  ['warming', 'train_step warming up (compile)'],
  ['warmed', 'train_step compiled in 1.9 s'],
  ['barrier', 'step barrier of 3 tensors took 210 µs'],
  ['cell', 'cell ended after 2.1 s: graphs 1 compiled, 4 reused'],
  ['donation', 'w (float32 64x64) was donated by a step barrier'],
  ['barrier', 'step barrier of 8 tensors took 1.2 ms']
];

export function event(seq: number, over: Partial<EventRow> = {}): EventRow {
  const [kind, text] = EVENTS[seq % EVENTS.length];
  const count = 1 + (seq % 40);
  return {
    seq,
    time_ms: T0 + seq * 37 + (seq % 11) * 400,
    kind,
    text,
    place: {
      text: `cell ${count}, line 3`,
      filename: null,
      line: 3,
      cell: cell(count)
    },
    cell: cell(count),
    graph_id: seq % 50,
    name: null,
    handle: null,
    taker_handle: null,
    ...over
  };
}

export function range<T>(
  count: number,
  make: (index: number) => T,
  from = 0
): T[] {
  return Array.from({ length: count }, (_, index) => make(from + index));
}

export function snapshot(over: Partial<Snapshot> = {}): Snapshot {
  return {
    type: 'snapshot',
    protocol: 1,
    at: { session: 1, look: 1 },
    ack: true,
    time_ms: T0,
    status: STATUS,
    settings: SETTINGS,
    graphs: [],
    buffers: [],
    events: [],
    event_total: over.events?.length ?? 0,
    counts: {},
    ...over
  };
}

export function delta(since: number, over: Partial<Delta> = {}): Delta {
  return {
    type: 'delta',
    since: { session: since, look: 1 },
    at: { session: since + 1, look: 1 },
    ack: true,
    time_ms: T0,
    status: STATUS,
    settings: SETTINGS,
    graphs: [],
    graphs_gone: [],
    buffers: [],
    buffers_gone: [],
    events: [],
    event_total: 0,
    counts: {},
    ...over
  };
}

/** A session in which something went wrong: one stale buffer, one hazard, a donation behind it. */
export function hazardous(): Snapshot {
  return snapshot({
    graphs: range(24, graph, 1),
    buffers: [
      ...range(160, buffer),
      buffer(900, {
        state: 'stale',
        handle: null,
        owners: [
          { kind: 'saved', name: 'train_step #2: running_mean', graph_id: 2 }
        ]
      }),
      buffer(901, {
        handle: 0xbeef,
        owners: [{ kind: 'variable', name: 'running_mean', graph_id: null }]
      })
    ],
    events: [
      ...range(160, event, 1),
      event(161, {
        kind: 'donation',
        text: 'running_mean (float32 64) was donated by a step barrier: running_mean has its memory now',
        graph_id: 2,
        name: 'running_mean',
        handle: 0xdead,
        taker_handle: 0xbeef
      }),
      event(162, {
        kind: 'hazard',
        text: 'running_mean, which train_step #2 needs, was donated: the run failed',
        name: 'running_mean',
        handle: 0xdead,
        graph_id: 2
      })
    ],
    event_total: 162,
    counts: { hazard: 1, donation: 1 }
  });
}

export function details(id: number, of: Graph): Details {
  const tensor = { shape: [64, 64], dtype: 'float32', nbytes: 16384 };
  const names = ['x', 'y', 'model.n', 'model.running_mean', 'lr', 'step'];
  return {
    type: 'details',
    id,
    graph: of,
    inputs: names.map(name => ({
      name,
      kind: name === 'lr' ? 'saved' : 'argument',
      tensor
    })),
    outputs: range(4, () => tensor),
    aliases: [
      { input: 2, output: 1, reused: true },
      { input: 3, output: 0, reused: false },
      { input: 5, output: 3, reused: true }
    ],
    host_ops: [
      {
        target: 'aten::median',
        why: 'XLA has no lowering for it',
        source: 'cell 3, line 9'
      }
    ]
  };
}

export function hloText(file: string, lines = 400): string {
  const body = range(
    lines,
    index =>
      `  %add.${index} = f32[64,64]{1,0} add(f32[64,64]{1,0} %p0, f32[64,64]{1,0} %p${index % 9}), ` +
      `metadata={op_type="aten__add" op_name="aten__add" source_file="${file}" source_line=${1 + (index % 12)}}`
  );
  return [
    'HloModule step',
    '',
    'ENTRY %main (p0: f32[64,64]) -> f32[64,64] {',
    ...body,
    '}'
  ].join('\n');
}
