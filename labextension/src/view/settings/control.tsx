import { JSX } from 'preact';
import { Settings } from '../../protocol/messages';
import { isServedNow } from '../../store/connection';
import { attempt, useEnv } from '../env';
import { SETTINGS, settingValue } from './texts';
import { useUniqueId } from '../useUniqueId';

/**
 * One setting as a group of radio buttons.
 *
 * The one that is checked is the kernel's; the one that was asked for is marked until the kernel has it.
 */
export function SettingControl({
  name,
  explained = false
}: {
  name: keyof Settings;
  explained?: boolean;
}): JSX.Element {
  const { client, t } = useEnv();
  const id = useUniqueId();
  const { label, help } = SETTINGS[name];
  const values: Record<string, { label: string; help: string }> =
    SETTINGS[name].values;
  const settings = client.model.settings;
  const pending = client.pendingSetting(name);
  const away = useReasonAway();
  const note =
    away ??
    (pending !== undefined ? t('asking for %1…', shown(values, pending)) : '');
  return (
    <fieldset
      class={explained ? 'xn-setting xn-explained' : 'xn-setting'}
      disabled={away !== null}
      aria-describedby={`${id}-note`}
      aria-busy={pending !== undefined}
      title={away ?? t(help)}
    >
      <legend>{t(label)}</legend>
      {explained && <p class="xn-help">{t(help)}</p>}
      <div class="xn-choices">
        {Object.keys(values).map(value => (
          <label
            key={value}
            title={t(values[value].help)}
            class={
              String(pending) === value ? 'xn-choice xn-pending' : 'xn-choice'
            }
          >
            <input
              type="radio"
              name={`${id}-${name}`}
              value={value}
              checked={settings !== null && String(settings[name]) === value}
              onChange={() =>
                attempt(
                  client,
                  client.request<'set_setting'>({
                    type: 'set_setting',
                    name,
                    value: settingValue(value)
                  })
                )
              }
            />
            <span>{t(values[value].label)}</span>{' '}
            {explained && <small>{t(values[value].help)}</small>}
          </label>
        ))}
      </div>
      <span id={`${id}-note`} class="xn-note" aria-live="polite">
        {note}
      </span>
    </fieldset>
  );
}

/** Why nothing can be asked of the kernel; null if something can. */
export function useReasonAway(): string | null {
  const { client, t } = useEnv();
  const connection = client.connection;
  if (connection.kind === 'disconnected') {
    return t('Not connected: %1.', connection.why);
  }
  return client.model.status ? null : t('Not connected yet.');
}

/** A sentence if a request of this kind would wait for the end of a cell, else nothing. */
export function useWaitNote(type: Parameters<typeof isServedNow>[1]): string {
  const { client, t } = useEnv();
  const status = client.model.status;
  return status?.busy && !isServedNow(status, type)
    ? t('Acts when cell %1 ends.', status.busy.execution_count)
    : '';
}

function shown(
  values: Record<string, { label: string }>,
  value: boolean | string
): string {
  const text = values[String(value)] as { label: string } | undefined;
  return text?.label ?? String(value);
}
