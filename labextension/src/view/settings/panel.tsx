import { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { attempt, useEnv } from '../env';
import { bytesText } from '../format';
import { SettingControl, useReasonAway, useWaitNote } from './control';
import { SETTING_NAMES } from './texts';

/** Every setting with its values explained, and what one can do to the session. */
export function SettingsPanel(): JSX.Element {
  return (
    <div class="xn-settings">
      <Actions />
      {SETTING_NAMES.map(name => (
        <SettingControl key={name} name={name} explained />
      ))}
    </div>
  );
}

function Actions(): JSX.Element {
  const { client, t } = useEnv();
  const [confirming, setConfirming] = useState(false);
  const [done, setDone] = useState('');
  const away = useReasonAway();
  const wait = useWaitNote('clear');

  const clear = async (): Promise<void> => {
    setConfirming(false);
    const answer = await client.request<'clear'>({ type: 'clear' });
    setDone(
      t.plural(
        '%1 graph dropped, %2 came free.',
        '%1 graphs dropped, %2 came free.',
        answer.graphs,
        bytesText(answer.nbytes)
      )
    );
  };
  const exportSession = async (): Promise<void> => {
    const { filename, text } = await client.request<'get_export'>({
      type: 'get_export'
    });
    download(filename, text);
    setDone(t('Saved as %1.', filename));
  };
  const copyReport = async (): Promise<void> => {
    const { text } = await client.request<'get_report'>({ type: 'get_report' });
    await navigator.clipboard.writeText(text);
    setDone(t('The report is in the clipboard.'));
  };
  const button = (label: string, act: () => Promise<void>): JSX.Element => (
    <button
      type="button"
      class="xn-button"
      disabled={away !== null}
      title={away ?? wait}
      onClick={() => attempt(client, act())}
    >
      {label}
    </button>
  );
  return (
    <div class="xn-actions">
      {confirming ? (
        <span role="group" aria-label={t('Drop all cached graphs?')}>
          {t('Drop all cached graphs and their saved buffers?')}{' '}
          {button(t('Drop them'), clear)}{' '}
          <button
            type="button"
            class="xn-button"
            onClick={() => setConfirming(false)}
          >
            {t('Keep them')}
          </button>
        </span>
      ) : (
        <button
          type="button"
          class="xn-button"
          disabled={away !== null}
          title={away ?? t('Drop all cached graphs')}
          onClick={() => setConfirming(true)}
        >
          {t('Clear…')}
        </button>
      )}
      {button(t('Export'), exportSession)}
      {button(t('Copy report'), copyReport)}
      <span role="status" class="xn-note">
        {done || away || wait}
      </span>
    </div>
  );
}

export function download(filename: string, text: string): void {
  const url = URL.createObjectURL(
    new Blob([text], { type: 'application/json' })
  );
  const link = document.createElement('a');
  link.href = url;
  link.download = filename;
  link.click();
  URL.revokeObjectURL(url);
}
