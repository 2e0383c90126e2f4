import { Kernel, KernelMessage } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import { NewHazards, statusTexts } from '../src/lab/facts';
import { noticeOf } from '../src/lab/notice';
import { Preferences } from '../src/lab/preferences';
import { QuietMessages } from '../src/lab/quiet';
import { Front } from '../src/lab/tokens';
import { translateWith } from '../src/lab/translate';
import { EventRow } from '../src/protocol/messages';
import { Schedule } from '../src/store/frames';

const trans = nullTranslator.load('xla_notebook');

const event = (seq: number, kind: EventRow['kind'] = 'hazard'): EventRow =>
  ({ seq, kind, text: '' }) as EventRow;
const seqs = (rows: EventRow[]): number[] => rows.map(row => row.seq);

describe('new hazards', () => {
  it('are each told once', () => {
    const hazards = new NewHazards();
    expect(hazards.take([], false)).toEqual([]);
    expect(seqs(hazards.take([event(1, 'traced'), event(2)], false))).toEqual([
      2
    ]);
    const later = [event(2), event(3), event(4, 'traced'), event(5)];
    expect(seqs(hazards.take(later, false))).toEqual([3, 5]);
    expect(hazards.take(later, false)).toEqual([]);
  });

  it('are not those that were there before the page', () => {
    expect(new NewHazards().take([event(1), event(2)], false)).toEqual([]);
  });

  it('are all of a kernel that was loaded before our eyes', () => {
    expect(seqs(new NewHazards().take([event(1)], true))).toEqual([1]);
  });

  it('are told of a kernel that began anew', () => {
    const hazards = new NewHazards();
    hazards.take([event(90)], true);
    expect(seqs(hazards.take([event(3)], true))).toEqual([3]);
    expect(seqs(hazards.take([event(3), event(4)], true))).toEqual([4]);
  });
});

describe('the status bar', () => {
  const facts = { graphs: 3, savedNbytes: 5 * 2 ** 20, hazards: 0 };
  const limits = { graphsWarning: 0, savedMiBWarning: 0 };

  it('says graphs and saved bytes, and hazards where there are some', () => {
    const quiet = statusTexts(facts, limits, trans);
    expect(quiet.text).toBe('XLA: 3 graphs, 5 MiB saved');
    const one = { ...facts, graphs: 1 };
    expect(statusTexts(one, limits, trans).text).toContain('XLA: 1 graph,');
    expect(quiet.hazards).toBeNull();
    expect(statusTexts({ ...facts, hazards: 1 }, limits, trans).hazards).toBe(
      '1 hazard'
    );
  });

  it('warns above a threshold, and never at 0', () => {
    expect(statusTexts(facts, limits, trans).warnings).toEqual([]);
    const strict = { graphsWarning: 2, savedMiBWarning: 4 };
    expect(statusTexts(facts, strict, trans).warnings).toHaveLength(2);
    const exact = { graphsWarning: 3, savedMiBWarning: 5 };
    expect(statusTexts(facts, exact, trans).warnings).toEqual([]);
  });
});

it('offers to load the extension only where that helps', () => {
  const front = (state: string): Front =>
    ({ document: {}, link: { state } }) as unknown as Front;
  const canLoad = (state: string) => noticeOf(front(state), trans)?.canLoad;
  expect(noticeOf(front('open'), trans)).toBeNull();
  expect(canLoad('absent')).toBe(true);
  expect(
    ['connecting', 'restarting', 'dead'].map(state => canLoad(state))
  ).toEqual([false, false, false]);
  expect(noticeOf(null, trans)?.canLoad).toBe(false);
});

it('hands the view JupyterLab’s translations, plurals with their counts among them', () => {
  const t = translateWith(trans);
  expect(t('cell %1 of %2', 3, 'a')).toBe('cell 3 of a');
  expect(t.plural('%1 run of %2', '%1 runs of %2', 1, 'f')).toBe('1 run of f');
  expect(t.plural('%1 run of %2', '%1 runs of %2', 1234, 'f')).toBe(
    '1,234 runs of f'
  );
});

describe('the refresh interval', () => {
  const scheduleWith = (refreshMs: number): Schedule => {
    const preferences = new Preferences();
    preferences.take({
      composite: { refreshMs }
    });
    return preferences.schedule;
  };

  it('is when changes are drawn', () => {
    const schedule = scheduleWith(3000);
    vi.useFakeTimers();
    try {
      const draw = vi.fn();
      schedule(draw);
      vi.advanceTimersByTime(2999);
      expect(draw).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(draw).toHaveBeenCalledOnce();
    } finally {
      vi.useRealTimers();
    }
  });

  it('is the next frame where there is none', async () => {
    await new Promise<void>(scheduleWith(0));
  });
});

describe('the kernel’s busy indicator', () => {
  /** A connection to a kernel, with what it was sent. */
  function connection() {
    const sent: KernelMessage.IMessage[] = [];
    const cancel: ((error: Error) => void)[] = [];
    const send = (message: KernelMessage.IMessage): unknown => {
      sent.push(message);
      const done = new Promise((_, reject) => cancel.push(reject));
      return { done, dispose: () => undefined };
    };
    const kernel = { sendShellMessage: send } as unknown as {
      anyMessage: Signal<Kernel.IKernelConnection, Kernel.IAnyMessageArgs>;
    } & Kernel.IKernelConnection;
    kernel.anyMessage = new Signal(kernel);
    return { kernel, sent, cancel };
  }

  /** Whether a connection takes a message for the kernel's status once the kernel has told of it. */
  function isStatus(
    kernel: ReturnType<typeof connection>['kernel'],
    parent: KernelMessage.IMessage,
    execution_state: 'busy' | 'idle'
  ): boolean {
    const msg = KernelMessage.createMessage<KernelMessage.IStatusMsg>({
      msgType: 'status',
      channel: 'iopub',
      session: 'kernel',
      parentHeader: { ...parent.header },
      content: { execution_state }
    });
    kernel.anyMessage.emit({ msg, direction: 'recv' });
    return KernelMessage.isStatusMsg(msg);
  }

  const message = (): KernelMessage.ICommMsgMsg<'shell'> =>
    KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'shell'>>({
      msgType: 'comm_msg',
      channel: 'shell',
      session: 'page',
      content: { comm_id: 'x', data: {} }
    });

  it('tells of no message of ours, from whatever page, and of all others', async () => {
    const [page, other] = [connection(), connection()];
    const quiet = new QuietMessages(page.kernel);
    new QuietMessages(other.kernel);
    const handled = quiet.sendShell(message());
    const [ours] = page.sent;
    for (const { kernel } of [page, other]) {
      expect(isStatus(kernel, ours, 'busy')).toBe(false);
      expect(isStatus(kernel, ours, 'idle')).toBe(false);
      expect(isStatus(kernel, message(), 'busy')).toBe(true);
      expect(isStatus(kernel, message(), 'idle')).toBe(true);
    }
    await handled;
  });

  it('leaves the ends of a widget’s messages to JupyterLab, as of messages that it does not count', () => {
    const { kernel } = connection();
    new QuietMessages(kernel);
    const parentType = (data: object): unknown => {
      const sent = message();
      sent.content.data = { ...data };
      kernel.anyMessage.emit({ msg: sent, direction: 'send' });
      let type: unknown;
      const listener = (_: unknown, { msg }: Kernel.IAnyMessageArgs): void => {
        type = (msg.parent_header as KernelMessage.IHeader).msg_type;
      };
      kernel.anyMessage.connect(listener);
      expect(isStatus(kernel, sent, 'idle')).toBe(true);
      kernel.anyMessage.disconnect(listener);
      return type;
    };
    const ack = { type: 'ack', at: { session: 1, look: 1 } };
    expect(parentType({ method: 'custom', content: ack })).toBe(
      'comm_info_request'
    );
    expect(parentType({ method: 'custom', content: {} })).toBe('comm_msg');
    expect(parentType({ method: 'update', state: ack })).toBe('comm_msg');
  });

  it('does not keep a page waiting for a kernel that has ended', async () => {
    const { kernel, cancel } = connection();
    const handled = new QuietMessages(kernel).sendShell(message());
    cancel[0](new Error('ended'));
    await expect(handled).rejects.toThrow('ended');
  });
});
