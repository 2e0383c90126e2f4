/**
 * A page that shows the view of a made-up kernel: to look at it, and to measure it.
 *
 * `?scene=` hazard (default), empty or large; `?panel=` which panel is open.
 */
import {
  Answer,
  Delta,
  EventRow,
  Request,
  Settings,
  Snapshot
} from '../src/protocol/messages';
import { Client } from '../src/store/client';
import { mountView } from '../src/view/mount';
import { PanelName } from '../src/view/viewState';
import css from '../style/view.css';
import {
  buffer,
  delta,
  details,
  event,
  graph,
  hazardous,
  hloText,
  range,
  SETTINGS,
  snapshot
} from './facts';
import { FakeKernel } from './fakeKernel';

const LARGE = { graphs: 1_000, buffers: 10_000, events: 100_000 };
const FIRST_EVENTS = 1_000;

const query = new URLSearchParams(location.search);
const scene = query.get('scene') ?? 'hazard';
const panel = (query.get('panel') ?? 'graphs') as PanelName;

function facts(): Snapshot {
  if (scene === 'empty') {
    return snapshot();
  }
  if (scene === 'large') {
    return snapshot({
      graphs: range(LARGE.graphs, graph),
      buffers: range(LARGE.buffers, buffer),
      events: range(FIRST_EVENTS, event, LARGE.events - FIRST_EVENTS),
      event_total: LARGE.events
    });
  }
  return hazardous();
}

let settings: Settings = SETTINGS;

function answer(request: Request, of: Snapshot): Answer | null {
  switch (request.type) {
    case 'set_setting':
      settings = { ...settings, [request.name]: request.value };
      return { type: 'changed', id: request.id, settings };
    case 'get_details':
      return details(request.id, graph(request.graph_id));
    case 'get_hlo':
      return {
        type: 'hlo',
        id: request.id,
        graph_id: request.graph_id,
        text: hloText(graph(request.graph_id).place?.filename ?? ''),
        ops: { add: 400, dot: 12, reduce: 3 }
      };
    case 'get_diff':
      return {
        type: 'diff',
        id: request.id,
        lines: [
          '--- first',
          '+++ second',
          '@@ -1,3 +1,3 @@',
          ' ENTRY %main {',
          '-  %add = f32[8,128]',
          '+  %add = f32[16,128]',
          ' }'
        ]
      };
    case 'get_events': {
      const first = Math.max(0, request.before - request.count);
      return {
        type: 'rows',
        id: request.id,
        events: range(request.before - first, event, first)
      };
    }
    case 'clear':
      return {
        type: 'cleared',
        id: request.id,
        graphs: of.graphs.length,
        nbytes: 3e6
      };
    case 'get_export':
      return {
        type: 'exported',
        id: request.id,
        filename: 'session.json',
        text: '{}'
      };
    case 'get_report':
      return { type: 'report_text', id: request.id, text: 'a report' };
    default:
      return null;
  }
}

/** Another delta each time: a few graphs run, some buffers come, go and change, some events happen. */
function update(tick: number, lastSeq: number): Partial<Delta> {
  const events: EventRow[] = range(10, event, lastSeq + 1);
  return {
    settings,
    graphs: range(20, index =>
      graph((tick * 7 + index) % LARGE.graphs, { runs: tick * 100 + index })
    ),
    buffers: [
      ...range(80, index =>
        buffer((tick * 31 + index * 7) % LARGE.buffers, {
          tensors: 1 + (tick % 5)
        })
      ),
      ...range(20, buffer, LARGE.buffers + tick * 20)
    ],
    buffers_gone: range(
      20,
      index => `h${LARGE.buffers + (tick - 1) * 20 + index}`
    ),
    events,
    event_total: LARGE.events
  };
}

const style = document.createElement('style');
style.textContent = css;
document.head.append(style);
const root = document.getElementById('root');
if (!root) {
  throw new Error('the page has no #root');
}

const started = performance.now();
const kernel = new FakeKernel();
const initial = facts();
const client = new Client();
kernel.onRequest = request => {
  const reply = answer(request, initial);
  if (reply) {
    // A busy kernel's answer comes a little later.
    setTimeout(() => kernel.say(reply), 30);
  }
};
const view = mountView(root, client, {
  openPlace: (place, cell) => console.log('open', place?.text, cell?.cell_id)
});
client.connect(kernel);
kernel.say(initial);
if (query.has('panel')) {
  view.show(panel);
}
requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    page.firstPaintMs = performance.now() - started;
  };
  channel.port2.postMessage(null);
});

let timer: ReturnType<typeof setInterval> | undefined;

/** What a script that drives the page can reach. */
const page = {
  client,
  kernel,
  view,
  firstPaintMs: null as number | null,
  /** Fill the log up to what the page keeps, by pages as a reader would. */
  fill: async (): Promise<number> => {
    const { events } = client.model;
    while (events.hasOlder) {
      await client.loadOlder(5_000);
    }
    return events.rows.length;
  },
  /** Push `perSecond` deltas a second. */
  run: (perSecond: number): void => {
    let tick = 0;
    timer = setInterval(() => {
      tick += 1;
      const { position, events } = client.model;
      const last = events.rows[events.rows.length - 1];
      kernel.say(delta(position?.session ?? 0, update(tick, last.seq)));
    }, 1000 / perSecond);
  },
  stop: (): void => clearInterval(timer)
};
(globalThis as unknown as { page: typeof page }).page = page;
