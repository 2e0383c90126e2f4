import { JSX } from 'preact';
import { Buffer, EventRow } from '../../protocol/messages';
import { useEnv } from '../env';
import { bytesText, clockText, handleText, shapeText } from '../format';
import { BUFFER_STATES } from '../kinds';
import { Details, PlaceLink } from '../parts';
import { useVersioned } from '../useVersioned';
import {
  donationOf,
  historyOf,
  isDeath,
  isUsedAfterDonation,
  namesOf
} from './facts';

const MOST_SHOWN = 100;

/** One buffer: who keeps it, and what happened to it. */
export function BufferDetails({
  buffer,
  onClose
}: {
  buffer: Buffer;
  onClose: () => void;
}): JSX.Element {
  const { client, t } = useEnv();
  const { events } = client.model;
  const last = events.rows.length ? events.rows[events.rows.length - 1].seq : 0;
  const history = useVersioned(`${buffer.key} ${events.epoch} ${last}`, () =>
    historyOf(buffer, events.rows)
  );
  const donation = donationOf(buffer, history);
  return (
    <Details title={namesOf(buffer) || t('a buffer')} onClose={onClose}>
      <p>
        {buffer.handle === null ? (
          buffer.state === 'pending' ? (
            t('no handle yet')
          ) : (
            t('no handle')
          )
        ) : (
          <>
            {t('handle')} <code>{handleText(buffer.handle)}</code>
          </>
        )}{' '}
        · {`${buffer.dtype} ${shapeText(buffer.shape)}`} ·{' '}
        {bytesText(buffer.nbytes)} ·{' '}
        {t.plural('%1 tensor', '%1 tensors', buffer.tensors)}
      </p>
      <p class={isUsedAfterDonation(buffer) ? 'xn-failure' : ''}>
        <b>{buffer.state}</b>: {t(BUFFER_STATES[buffer.state])}.{' '}
        {donation?.place && (
          <>
            {t('Donated at')}{' '}
            <PlaceLink place={donation.place} cell={donation.cell} />.
          </>
        )}
      </p>
      <h4>{t('Owners')}</h4>
      <Owners buffer={buffer} />
      <h4>{t('History')}</h4>
      {history.length ? (
        <ol class="xn-history">
          {history.slice(-MOST_SHOWN).map(event => (
            <HistoryLine key={event.seq} event={event} buffer={buffer} />
          ))}
        </ol>
      ) : (
        <p class="xn-note">
          {t(
            'No event tells of it. Watch donations (in Settings) to see them all.'
          )}
        </p>
      )}
    </Details>
  );
}

function Owners({ buffer }: { buffer: Buffer }): JSX.Element {
  const { client, view, t } = useEnv();
  return (
    <ul>
      {buffer.owners.map((owner, index) => {
        const graph =
          owner.graph_id === null
            ? undefined
            : client.model.graphs.get(owner.graph_id);
        return (
          <li key={index}>
            {owner.kind} <b>{owner.name}</b>
            {graph && (
              <>
                {' · '}
                {t.plural(
                  'read by %1 run of',
                  'read by %1 runs of',
                  graph.runs
                )}{' '}
                <button
                  type="button"
                  class="xn-link"
                  onClick={() =>
                    view.set({ panel: 'graphs', graphId: graph.graph_id })
                  }
                >
                  {graph.name}
                </button>
                {', '}
                <PlaceLink place={graph.place} cell={graph.cell} />
              </>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function HistoryLine({
  event,
  buffer
}: {
  event: EventRow;
  buffer: Buffer;
}): JSX.Element {
  const { client, view, t } = useEnv();
  const taker =
    isDeath(event, buffer) && event.taker_handle !== null
      ? [...client.model.buffers.values()].find(
          other => other.handle === event.taker_handle
        )
      : undefined;
  return (
    <li class={event.kind === 'hazard' ? 'xn-failure' : ''}>
      <time>{clockText(event.time_ms)}</time> {said(event, buffer, t)}{' '}
      <PlaceLink place={event.place} cell={event.cell} />
      {taker && (
        <>
          {' '}
          {t('memory now holds')}{' '}
          <button
            type="button"
            class="xn-link"
            onClick={() => view.set({ bufferKey: taker.key })}
          >
            {namesOf(taker) || handleText(taker.handle)}
          </button>
        </>
      )}
    </li>
  );
}

function said(
  event: EventRow,
  buffer: Buffer,
  t: ReturnType<typeof useEnv>['t']
): string {
  if (event.kind === 'traced') {
    return t('saved: %1', event.text);
  }
  return event.taker_handle === buffer.handle && buffer.handle !== null
    ? t('took this memory: %1', event.text)
    : event.text;
}
