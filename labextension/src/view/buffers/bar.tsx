import { JSX } from 'preact';
import { Buffer } from '../../protocol/messages';
import { useEnv } from '../env';
import { bytesText } from '../format';
import { OWNER_KINDS } from '../kinds';
import { useVersioned } from '../useVersioned';
import { bytesByOwner, Share } from './facts';

const LABELS: Record<Share, string> = {
  ...OWNER_KINDS,
  saved: 'graphs only',
  shared: 'several kinds',
  nobody: 'no owner found'
};

/** Whose the bytes are, as one bar; the legend says the same in words. */
export function BytesBar(props: {
  buffers: ReadonlyMap<string, Buffer>;
  version: number;
}): JSX.Element {
  const { t } = useEnv();
  const shares = useVersioned(props.version, () => [
    ...bytesByOwner(props.buffers.values())
  ]);
  const total = shares.reduce((sum, [, nbytes]) => sum + nbytes, 0);
  return (
    <div class="xn-bytes">
      <div class="xn-bar" aria-hidden="true">
        {shares.map(([share, nbytes]) => (
          <div
            key={share}
            class={`xn-share xn-of-${share}`}
            style={{ flexGrow: nbytes }}
            title={`${t(LABELS[share])} ${bytesText(nbytes)}`}
          />
        ))}
      </div>
      <ul class="xn-legend">
        <li>
          <b>{t('%1 live', bytesText(total))}</b>
        </li>
        {shares.map(([share, nbytes]) => (
          <li key={share}>
            <span class={`xn-swatch xn-of-${share}`} aria-hidden="true" />
            {t(LABELS[share])} {bytesText(nbytes)}
          </li>
        ))}
      </ul>
    </div>
  );
}
