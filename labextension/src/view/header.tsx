import { JSX } from 'preact';
import { Client } from '../store/client';
import { connectionText } from './connectionText';
import { useEnv } from './env';
import { bytesText } from './format';
import { SettingControl } from './settings/control';
import { useVersioned } from './useVersioned';

/** Device, memory, hazards, connection, and the settings that one reaches for most. */
export function Header(): JSX.Element {
  const { client, t, view } = useEnv();
  const { status, counts } = client.model;
  const saved = useVersioned(
    client.model.versions.buffers + client.model.versions.graphs,
    () => savedBytes(client)
  );
  const hazards = counts.hazard ?? 0;
  const connection = client.connection;
  const words = connectionText(connection, t);
  return (
    <div class="xn-header">
      <div class="xn-facts">
        <span
          class={`xn-connection xn-is-${connection.kind}`}
          role="status"
          title={words.long}
        >
          {words.short}
        </span>
        <span title={t('The device that graphs are compiled for')}>
          {status?.device ?? t('no device yet')}
        </span>
        <span
          title={t(
            'Device memory of the buffers that graphs keep for later runs'
          )}
        >
          {t('saved buffers')} <b>{bytesText(saved)}</b>
        </span>
        {hazards > 0 ? (
          <button
            type="button"
            class="xn-button xn-danger"
            onClick={() =>
              view.set({
                panel: 'events',
                events: { text: '', kind: 'danger' }
              })
            }
          >
            {t.plural('%1 hazard', '%1 hazards', hazards)}
          </button>
        ) : (
          <span>{t('no hazards')}</span>
        )}
      </div>
      <div class="xn-toggles">
        <SettingControl name="warm_up" />
        <SettingControl name="freeze" />
      </div>
    </div>
  );
}

/** Bytes that graphs keep: counted once for each buffer, once the buffers were looked at. */
export function savedBytes(client: Client): number {
  const { buffers, graphs, status } = client.model;
  let sum = 0;
  if (status?.looked_ms != null) {
    for (const buffer of buffers.values()) {
      if (
        buffer.state === 'live' &&
        buffer.owners.some(owner => owner.kind === 'saved')
      ) {
        sum += buffer.nbytes;
      }
    }
    return sum;
  }
  for (const graph of graphs.values()) {
    sum += graph.saved_nbytes;
  }
  return sum;
}
