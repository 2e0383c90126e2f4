import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { decode, MalformedMessage } from '../src/protocol/decode';
import { Client } from '../src/store/client';
import { EventLog } from '../src/store/eventLog';
import { RequestFailed } from '../src/store/requests';
import {
  buffer,
  cell,
  delta,
  event,
  graph,
  range,
  SETTINGS,
  snapshot,
  STATUS
} from './facts';
import { FakeKernel } from './fakeKernel';

function connected(): { client: Client; kernel: FakeKernel } {
  const client = new Client({ schedule: callback => callback() });
  const kernel = new FakeKernel();
  client.connect(kernel);
  kernel.say(
    snapshot({
      graphs: [graph(1)],
      buffers: [buffer(1)],
      events: [event(1)],
      event_total: 1
    })
  );
  return { client, kernel };
}

describe('pushes', () => {
  it('takes a snapshot and acknowledges it', () => {
    const { client, kernel } = connected();
    expect([...client.model.graphs.keys()]).toEqual([1]);
    expect(kernel.last('ack').at).toEqual({ session: 1, look: 1 });
    expect(client.connection.kind).toBe('live');
  });

  it('applies a delta: changed rows, rows gone, new events', () => {
    const { client, kernel } = connected();
    kernel.say(
      delta(1, {
        graphs: [graph(2)],
        graphs_gone: [1],
        buffers: [buffer(2)],
        buffers_gone: ['h1'],
        events: [event(2)],
        event_total: 2,
        counts: { hazard: 3 }
      })
    );
    expect([...client.model.graphs.keys()]).toEqual([2]);
    expect([...client.model.buffers.keys()]).toEqual(['h2']);
    expect(client.model.events.rows.map(row => row.seq)).toEqual([1, 2]);
    expect(client.model.counts).toEqual({ hazard: 3 });
    expect(kernel.last('ack').at.session).toBe(2);
  });

  it('says nothing to a push that does not ask', () => {
    const { kernel } = connected();
    kernel.say(delta(1, { ack: false }));
    expect(kernel.last('ack').at.session).toBe(1);
  });

  it('asks once for a snapshot when a delta is missing, and changes nothing until it comes', () => {
    const { client, kernel } = connected();
    kernel.say(delta(5, { graphs_gone: [1] }));
    kernel.say(delta(6, { graphs_gone: [1] }));
    expect(kernel.count('open')).toBe(2);
    expect(client.model.graphs.size).toBe(1);
    kernel.say(snapshot({ at: { session: 9, look: 1 } }));
    kernel.say(delta(9, { graphs: [graph(7)] }));
    expect([...client.model.graphs.keys()]).toEqual([7]);
    expect(kernel.count('open')).toBe(2);
  });

  it('takes a delta that comes twice for one', () => {
    const { client, kernel } = connected();
    kernel.say(delta(1, { events: [event(2)] }));
    kernel.say(delta(1, { events: [event(2)] }));
    expect(client.model.events.rows).toHaveLength(2);
    expect(kernel.count('open')).toBe(1);
  });

  it('heals when deltas come in the wrong order', () => {
    const { client, kernel } = connected();
    kernel.say(delta(2, { graphs: [graph(3)] }));
    kernel.say(delta(1, { graphs: [graph(2)] }));
    kernel.say(
      snapshot({ at: { session: 3, look: 1 }, graphs: [graph(2), graph(3)] })
    );
    expect([...client.model.graphs.keys()]).toEqual([2, 3]);
  });

  it('tells two pages of one kernel the same, however they came to it', () => {
    const first = connected();
    const second = connected();
    const changes = delta(1, {
      graphs: [graph(4)],
      buffers_gone: ['h1'],
      events: [event(2)]
    });
    first.kernel.say(changes);
    second.kernel.say(
      snapshot({
        at: changes.at,
        graphs: [graph(1), graph(4)],
        events: [event(1), event(2)]
      })
    );
    const facts = ({ model }: Client): unknown => [
      [...model.graphs],
      [...model.buffers],
      model.events.rows,
      model.position
    ];
    expect(facts(first.client)).toEqual(facts(second.client));
  });
});

describe('an opening that the kernel did not hear', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('is repeated ever more seldom, until the first snapshot', () => {
    const client = new Client({
      schedule: callback => callback(),
      patienceMs: 1000
    });
    const kernel = new FakeKernel();
    client.connect(kernel);
    vi.advanceTimersByTime(3500);
    expect(kernel.count('open')).toBe(3);
    kernel.say(snapshot({}));
    vi.advanceTimersByTime(60_000);
    expect(kernel.count('open')).toBe(3);
    expect(client.connection.kind).toBe('live');
  });

  it('is not repeated once the connection has ended', () => {
    const client = new Client({ patienceMs: 1000 });
    const kernel = new FakeKernel();
    client.connect(kernel);
    client.disconnect('enough');
    vi.advanceTimersByTime(60_000);
    expect(kernel.count('open')).toBe(1);
  });
});

describe('messages that are wrong', () => {
  it.each([
    ['nothing', null, 'no message'],
    ['a text that is not JSON', '{', 'not JSON'],
    ['an unknown type', { type: 'surprise' }, 'unknown type "surprise"'],
    ['a type that objects inherit', { type: 'toString' }, 'unknown type'],
    [
      'another protocol',
      { ...snapshot(), protocol: 2 },
      'protocol 2, this page 1'
    ],
    ['a missing field', { type: 'diff', id: 3 }, 'wrong lines'],
    ['a row without a key', { ...snapshot(), graphs: [null] }, 'wrong graphs']
  ])('refuses %s', (_, message, text) => {
    expect(() => decode(message)).toThrow(MalformedMessage);
    expect(() => decode(message)).toThrow(text);
  });

  it('shows them, changes nothing, and goes on', () => {
    const { client, kernel } = connected();
    kernel.sayRaw('{"type": "delta"}');
    expect(client.failures.map(failure => failure.text)).toEqual([
      'The kernel’s delta message has a wrong since.'.replace('’', "'")
    ]);
    kernel.say(delta(1, { graphs: [graph(2)] }));
    expect(client.model.graphs.size).toBe(2);
    client.dismiss(client.failures[0].key);
    expect(client.failures).toEqual([]);
  });

  it('takes text, bytes and objects alike', () => {
    const message = { type: 'closed' };
    const text = JSON.stringify(message);
    const bytes = new TextEncoder().encode(text);
    for (const data of [
      message,
      text,
      bytes,
      bytes.buffer,
      new DataView(bytes.buffer)
    ]) {
      expect(decode(data)).toEqual(message);
    }
  });
});

describe('requests', () => {
  it('are answered once', async () => {
    const { client, kernel } = connected();
    const answer = client.request<'get_report'>({ type: 'get_report' });
    const { id } = kernel.last('get_report');
    kernel.say({ type: 'report_text', id, text: 'first' });
    kernel.say({ type: 'report_text', id, text: 'second' });
    expect((await answer).text).toBe('first');
  });

  it('are refused with the kernel’s words', async () => {
    const { client, kernel } = connected();
    const answer = client.request<'get_hlo'>({ type: 'get_hlo', graph_id: 7 });
    kernel.say({
      type: 'failed',
      id: kernel.last('get_hlo').id,
      code: 'gone',
      text: 'there is no graph 7'
    });
    await expect(answer).rejects.toEqual(
      new RequestFailed('gone', 'there is no graph 7')
    );
  });

  it('are not settled by an answer to something else', async () => {
    const { client, kernel } = connected();
    const answer = client.request<'get_hlo'>({ type: 'get_hlo', graph_id: 7 });
    const { id } = kernel.last('get_hlo');
    kernel.say({ type: 'report_text', id: id + 1, text: 'another page’s' });
    kernel.say({ type: 'report_text', id, text: '' });
    await expect(answer).rejects.toThrow('answered get_hlo with report_text');
  });

  it('are given up when the connection ends, and refused after it', async () => {
    const { client, kernel } = connected();
    const answer = client.request<'clear'>({ type: 'clear' });
    kernel.become('closed');
    await expect(answer).rejects.toMatchObject({ code: 'closed' });
    await expect(
      client.request<'clear'>({ type: 'clear' })
    ).rejects.toMatchObject({ code: 'closed' });
    expect(kernel.isListenedTo).toBe(false);
  });

  it('load older events, and stop at the kernel’s first', async () => {
    const { client, kernel } = connected();
    kernel.say(snapshot({ events: range(3, event, 10), event_total: 5 }));
    const loaded = client.loadOlder(2);
    expect(kernel.last('get_events')).toMatchObject({ before: 10, count: 2 });
    kernel.say({
      type: 'rows',
      id: kernel.last('get_events').id,
      events: range(2, event, 8)
    });
    await loaded;
    expect(client.model.events.rows.map(row => row.seq)).toEqual([
      8, 9, 10, 11, 12
    ]);
    await client.loadOlder(2);
    expect(kernel.count('get_events')).toBe(1);
  });
});

describe('settings', () => {
  it('are pending until the kernel has changed them', async () => {
    const { client, kernel } = connected();
    const answer = client.request<'set_setting'>({
      type: 'set_setting',
      name: 'warm_up',
      value: 'off'
    });
    expect(client.pendingSetting('warm_up')).toBe('off');
    expect(client.model.settings?.warm_up).toBe('compile');
    kernel.say({
      type: 'changed',
      id: kernel.last('set_setting').id,
      settings: { ...SETTINGS, warm_up: 'off' }
    });
    await answer;
    expect(client.pendingSetting('warm_up')).toBeUndefined();
    expect(client.model.settings?.warm_up).toBe('off');
  });

  it('stop being pending when a delta brings them', () => {
    const { client, kernel } = connected();
    void client.request<'set_setting'>({
      type: 'set_setting',
      name: 'freeze',
      value: 'warn'
    });
    kernel.say(delta(1, { settings: { ...SETTINGS, freeze: 'warn' } }));
    expect(client.pendingSetting('freeze')).toBeUndefined();
  });
});

describe('the connection', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('is connecting, then live, then busy', () => {
    const client = new Client({ schedule: callback => callback() });
    const kernel = new FakeKernel();
    expect(client.connection.kind).toBe('disconnected');
    client.connect(kernel);
    expect(client.connection.kind).toBe('connecting');
    kernel.say(snapshot());
    expect(client.connection.kind).toBe('live');
    kernel.say(delta(1, { status: { ...STATUS, busy: cell(3) } }));
    expect(client.connection).toEqual({ kind: 'busy', cell: cell(3) });
  });

  it('waits for the cell where requests are served at its end', () => {
    const { client, kernel } = connected();
    kernel.say(
      delta(1, { status: { ...STATUS, busy: cell(3), prompt: false } })
    );
    void client.request<'set_setting'>({
      type: 'set_setting',
      name: 'guard',
      value: false
    });
    vi.advanceTimersByTime(60_000);
    expect(client.connection).toEqual({
      kind: 'waiting',
      cell: cell(3),
      count: 1
    });
  });

  it('is stale when an answer that should come does not, and heals when one comes', () => {
    const { client, kernel } = connected();
    const heard = Date.now();
    const seen: string[] = [];
    client.subscribe(() => seen.push(client.connection.kind));
    void client.request<'set_setting'>({
      type: 'set_setting',
      name: 'guard',
      value: false
    });
    vi.advanceTimersByTime(10_000);
    expect(client.connection).toEqual({ kind: 'stale', sinceMs: heard });
    expect(seen).toContain('stale');
    kernel.say({
      type: 'changed',
      id: kernel.last('set_setting').id,
      settings: SETTINGS
    });
    expect(client.connection.kind).toBe('live');
  });

  it('is stale while it is interrupted, and begins anew after', () => {
    const { client, kernel } = connected();
    kernel.become('interrupted');
    expect(client.connection.kind).toBe('stale');
    kernel.become('open');
    expect(kernel.count('open')).toBe(2);
  });

  it('ends with the kernel, keeps what was known, and begins empty with the next', () => {
    const { client, kernel } = connected();
    kernel.say({ type: 'closed' });
    expect(client.connection).toEqual({
      kind: 'disconnected',
      why: 'the extension was unloaded'
    });
    expect(client.model.graphs.size).toBe(1);
    const next = new FakeKernel();
    client.connect(next);
    expect(client.model.graphs.size).toBe(0);
    kernel.say(snapshot({ graphs: [graph(5)] }));
    expect(client.model.graphs.size).toBe(0);
    next.say(snapshot({ graphs: [graph(6)] }));
    expect([...client.model.graphs.keys()]).toEqual([6]);
  });
});

describe('visibility', () => {
  it('is told when the first viewer sees something and the last one no longer', () => {
    const { client, kernel } = connected();
    const [first, second] = [client.addViewer(), client.addViewer()];
    first.setVisible(true);
    second.setVisible(true);
    first.setVisible(false);
    expect(kernel.count('show')).toBe(1);
    second.dispose();
    expect(kernel.last('show').visible).toBe(false);
    expect(kernel.count('show')).toBe(2);
  });
});

describe('the signal', () => {
  it('is heard once per frame', () => {
    const frames: (() => void)[] = [];
    const client = new Client({
      schedule: callback => void frames.push(callback)
    });
    let heard = 0;
    client.subscribe(() => (heard += 1));
    client.connect(new FakeKernel());
    client.report('one');
    client.report('two');
    expect(frames).toHaveLength(1);
    frames[0]();
    expect(heard).toBe(1);
  });
});

describe('the event log', () => {
  it('is bounded, and forgets the oldest', () => {
    const log = new EventLog(10);
    log.append(range(6000, event));
    expect(log.rows.map(row => row.seq)).toEqual(
      range(10, index => 5990 + index)
    );
    log.total = 6000;
    expect(log.hasOlder).toBe(false);
  });

  it('keeps older events over a snapshot that joins them, and drops them before a gap', () => {
    const log = new EventLog();
    log.append(range(5, event));
    log.reset(range(5, event, 3));
    expect(log.rows.map(row => row.seq)).toEqual(range(8, index => index));
    log.reset(range(2, event, 50));
    expect(log.rows.map(row => row.seq)).toEqual([50, 51]);
  });
});
