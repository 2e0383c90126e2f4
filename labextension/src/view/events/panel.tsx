import { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { EventRow } from '../../protocol/messages';
import { Runs } from '../../store/runLog';
import { attempt, Translate, useEnv } from '../env';
import { clockText, countText, handleText } from '../format';
import { Column, Grid } from '../grid/grid';
import { COMPILE_MAGIC, EVENT_KINDS } from '../kinds';
import { Choice, Details, Empty, PlaceLink, TextFilter } from '../parts';
import { FilteredLog } from './filteredLog';
import { Timeline } from './timeline';

const OLDER = 5000;
// Runs are not events, and fit no filter.
const NO_RUNS: readonly Runs[] = [];

export function EventsPanel(): JSX.Element {
  const { client, view, t } = useEnv();
  const { events, runs } = client.model;
  const chosen = view.state.events;
  const columns = useMemo(() => eventColumns(t), [t]);
  const log = useRef(new FilteredLog());
  const rows = log.current.update(events, chosen);
  const opened =
    view.state.eventSeq === null
      ? undefined
      : rows.find(row => row.seq === view.state.eventSeq);
  const close = (): void => view.set({ eventSeq: null });
  return (
    <div class="xn-split">
      <div class="xn-list">
        {rows.length > 0 && (
          <Timeline
            rows={rows}
            runs={chosen.kind === 'all' && !chosen.text ? runs.rows : NO_RUNS}
            onPick={row => view.set({ eventSeq: row.seq })}
          />
        )}
        <div class="xn-tools">
          <TextFilter
            label={t('Filter events')}
            value={chosen.text}
            onChange={text => view.set({ events: { ...chosen, text } })}
          />
          <Choice
            label={t('Kind')}
            value={chosen.kind}
            choices={[
              ['all', t('all kinds')],
              ['danger', t('hazards and donations')],
              ...EVENT_KINDS.map(kind => [kind, kind] as const)
            ]}
            onChange={kind =>
              view.set({
                events: { ...chosen, kind: kind as typeof chosen.kind }
              })
            }
          />
          <Older />
        </div>
        {events.rows.length === 0 ? (
          <Empty>
            {t('Nothing has happened yet: run a cell with %1.', COMPILE_MAGIC)}
          </Empty>
        ) : rows.length === 0 ? (
          <Empty>
            {chosen.kind === 'danger' && !chosen.text
              ? t('No buffer was donated: nothing is at risk.')
              : t.plural(
                  'The only event does not fit the filter.',
                  'None of the %1 events fits the filter.',
                  events.rows.length
                )}
          </Empty>
        ) : (
          <Grid
            label={t('Events')}
            columns={columns}
            rows={rows}
            rowKey={row => row.seq}
            rowClass={row => (isDanger(row) ? 'xn-row-danger' : '')}
            selected={view.state.eventSeq}
            reveal={view.state.eventSeq}
            follow
            onOpen={row => view.set({ eventSeq: row.seq })}
            onEscape={close}
          />
        )}
        <div class="xn-totals">
          {t.plural('%1 event shown', '%1 events shown', rows.length)}
          {rows.length < events.total &&
            ` · ${t('the kernel holds %1', countText(events.total))}`}
        </div>
      </div>
      {opened && (
        <EventDetails key={opened.seq} event={opened} onClose={close} />
      )}
    </div>
  );
}

function Older(): JSX.Element | null {
  const { client, t } = useEnv();
  const [loading, setLoading] = useState(false);
  const load = async (): Promise<void> => {
    setLoading(true);
    try {
      await client.loadOlder(OLDER);
    } finally {
      setLoading(false);
    }
  };
  return client.model.events.hasOlder ? (
    <button
      type="button"
      class="xn-button"
      disabled={loading || client.connection.kind === 'disconnected'}
      onClick={() => attempt(client, load())}
    >
      {loading ? t('Loading…') : t('Load older')}
    </button>
  ) : null;
}

function EventDetails({
  event,
  onClose
}: {
  event: EventRow;
  onClose: () => void;
}): JSX.Element {
  const { client, view, t } = useEnv();
  const graph =
    event.graph_id === null
      ? undefined
      : client.model.graphs.get(event.graph_id);
  const buffer =
    event.handle === null && event.taker_handle === null
      ? undefined
      : [...client.model.buffers.values()].find(
          row =>
            row.handle !== null &&
            (row.handle === event.handle || row.handle === event.taker_handle)
        );
  return (
    <Details title={event.kind} onClose={onClose}>
      <p class={isDanger(event) ? 'xn-failure' : ''}>{event.text}</p>
      <p>
        <time>{clockText(event.time_ms)}</time>{' '}
        <PlaceLink place={event.place} cell={event.cell} />
      </p>
      {graph && (
        <p>
          {t('graph')}{' '}
          <button
            type="button"
            class="xn-link"
            onClick={() =>
              view.set({ panel: 'graphs', graphId: graph.graph_id })
            }
          >
            {graph.name}
          </button>
        </p>
      )}
      {event.handle !== null && (
        <p>
          {t('buffer')} <code>{handleText(event.handle)}</code>
          {event.taker_handle !== null && (
            <>
              {' → '}
              <code>{handleText(event.taker_handle)}</code>
            </>
          )}
        </p>
      )}
      {buffer && (
        <p>
          <button
            type="button"
            class="xn-link"
            onClick={() =>
              view.set({ panel: 'buffers', bufferKey: buffer.key })
            }
          >
            {t('Show the buffer')}
          </button>
        </p>
      )}
    </Details>
  );
}

function isDanger(event: EventRow): boolean {
  return event.kind === 'hazard';
}

function eventColumns(t: Translate): Column<EventRow>[] {
  return [
    {
      id: 'time',
      title: t('time'),
      width: '7.5em',
      from: 380,
      cell: row => <time>{clockText(row.time_ms)}</time>
    },
    {
      id: 'kind',
      title: t('kind'),
      width: '6em',
      cell: row => <span class={`xn-kind xn-is-${row.kind}`}>{row.kind}</span>
    },
    {
      id: 'text',
      title: t('what'),
      width: 'minmax(10em, 4fr)',
      cell: row => <span title={row.text}>{row.text}</span>
    },
    {
      id: 'place',
      title: t('where'),
      width: 'minmax(6em, 1fr)',
      from: 480,
      cell: row => <PlaceLink place={row.place} cell={row.cell} inRow />
    }
  ];
}
