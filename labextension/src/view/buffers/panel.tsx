import { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { Buffer } from '../../protocol/messages';
import { useEnv } from '../env';
import { bytesText, countText, handleText } from '../format';
import { Grid } from '../grid/grid';
import { SortedRows } from '../grid/sortedRows';
import { BUFFER_STATES, OWNER_KINDS } from '../kinds';
import { Choice, Empty, TextFilter } from '../parts';
import { useVersioned } from '../useVersioned';
import { ViewState } from '../viewState';
import { BytesBar } from './bar';
import { bufferColumns, Row, rowColumns } from './columns';
import { BufferDetails } from './details';
import { groupBuffers, isUsedAfterDonation, namesOf } from './facts';

export function BuffersPanel(): JSX.Element {
  const { client, view, t } = useEnv();
  const { buffers, versions, status } = client.model;
  const chosen = view.state.buffers;
  const columns = useMemo(() => bufferColumns(t), [t]);
  const gridColumns = useMemo(() => rowColumns(columns), [columns]);
  const sorted = useRef(new SortedRows<string, Buffer>(row => row.key));
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const order =
    columns.find(column => column.id === chosen.sort.column) ?? columns[0];
  const shown = sorted.current.update(buffers, versions.buffers, {
    id: JSON.stringify(chosen),
    sortKey: order.sort,
    descending: chosen.sort.descending,
    shows: bufferFilter(chosen)
  });
  const rows = useRows(shown, chosen.group, opened);
  const picked =
    view.state.bufferKey === null
      ? undefined
      : buffers.get(view.state.bufferKey);
  const close = (): void => view.set({ bufferKey: null });
  const open = (row: Row): void => {
    if (row.kind === 'buffer') {
      view.set({ bufferKey: row.buffer.key });
      return;
    }
    const next = new Set(opened);
    if (!next.delete(row.group.name)) {
      next.add(row.group.name);
    }
    setOpened(next);
  };
  return (
    <div class="xn-split">
      <div class="xn-list">
        <BytesBar buffers={buffers} version={versions.buffers} />
        <Tools />
        {buffers.size === 0 ? (
          <Empty>
            {t(
              'No device buffers: neither graphs nor the notebook’s names keep any.'
            )}
          </Empty>
        ) : shown.length === 0 ? (
          <Empty>
            {t.plural(
              'The only buffer does not fit the filter.',
              'None of the %1 buffers fits the filter.',
              buffers.size
            )}
          </Empty>
        ) : (
          <Grid
            label={t('Buffers')}
            columns={gridColumns}
            rows={rows}
            rowKey={row => row.key}
            rowClass={rowClass}
            expanded={
              chosen.group === 'none'
                ? undefined
                : row => (row.kind === 'group' ? row.open : undefined)
            }
            sort={chosen.sort}
            onSort={sort => view.set({ buffers: { ...chosen, sort } })}
            selected={view.state.bufferKey}
            reveal={view.state.bufferKey}
            onOpen={open}
            onEscape={close}
          />
        )}
        <Totals shown={shown} complete={status?.buffers_complete ?? true} />
      </div>
      {picked && (
        <BufferDetails key={picked.key} buffer={picked} onClose={close} />
      )}
    </div>
  );
}

function Tools(): JSX.Element {
  const { client, view, t } = useEnv();
  const { buffers, versions } = client.model;
  const chosen = view.state.buffers;
  const set = (patch: Partial<typeof chosen>): void =>
    view.set({ buffers: { ...chosen, ...patch } });
  const inDanger = useVersioned(versions.buffers, () =>
    [...buffers.values()].reduce(
      (count, buffer) => count + Number(isUsedAfterDonation(buffer)),
      0
    )
  );
  return (
    <div class="xn-tools">
      <TextFilter
        label={t('Filter by name or handle')}
        value={chosen.text}
        onChange={text => set({ text })}
      />
      <Choice
        label={t('State')}
        value={chosen.state}
        choices={[
          ['all', t('all states')],
          ['danger', t('use after donation')],
          ...Object.keys(BUFFER_STATES).map(state => [state, state] as const)
        ]}
        onChange={state => set({ state: state as typeof chosen.state })}
      />
      <Choice
        label={t('Owner')}
        value={chosen.owner}
        choices={[
          ['all', t('all owners')],
          ...Object.entries(OWNER_KINDS).map(
            ([kind, text]) => [kind, t(text)] as const
          )
        ]}
        onChange={owner => set({ owner: owner as typeof chosen.owner })}
      />
      <Choice
        label={t('Group by')}
        value={chosen.group}
        choices={[
          ['none', t('no groups')],
          ['owner', t('by owner')],
          ['state', t('by state')],
          ['name', t('by Python name')]
        ]}
        onChange={group => set({ group: group as typeof chosen.group })}
      />
      {inDanger > 0 && (
        <button
          type="button"
          class="xn-button xn-danger"
          onClick={() => set({ state: 'danger', text: '', owner: 'all' })}
        >
          {t('%1 used after donation', countText(inDanger))}
        </button>
      )}
    </div>
  );
}

function Totals(props: {
  shown: readonly Buffer[];
  complete: boolean;
}): JSX.Element {
  const { t } = useEnv();
  const nbytes = props.shown.reduce(
    (sum, buffer) => sum + (buffer.state === 'live' ? buffer.nbytes : 0),
    0
  );
  return (
    <div class="xn-totals">
      {t.plural('%1 buffer', '%1 buffers', props.shown.length)}
      {` · ${t('%1 live', bytesText(nbytes))}`}
      {!props.complete &&
        ` · ${t('the search hit its limits, so there may be more')}`}
    </div>
  );
}

/** Rows keep their identity as long as their buffer does, so that only changed ones are drawn again. */
function useRows(
  buffers: readonly Buffer[],
  group: ViewState['buffers']['group'],
  opened: ReadonlySet<string>
): readonly Row[] {
  const known = useRef(new WeakMap<Buffer, Row>());
  return useMemo(() => {
    const rowOf = (buffer: Buffer): Row => {
      const row: Row = known.current.get(buffer) ?? {
        kind: 'buffer',
        key: buffer.key,
        buffer,
        level: 1
      };
      known.current.set(buffer, row);
      return row;
    };
    if (group === 'none') {
      return buffers.map(rowOf);
    }
    return groupBuffers(buffers, group).flatMap(each => {
      const open = opened.has(each.name);
      const head: Row = {
        kind: 'group',
        key: `group ${each.name}`,
        group: each,
        open
      };
      // A buffer may be in several open groups: its rows need keys of their own.
      const members = open
        ? each.buffers.map((buffer): Row => ({
            kind: 'buffer',
            key: `${each.name} ${buffer.key}`,
            buffer,
            level: 2
          }))
        : [];
      return [head, ...members];
    });
  }, [buffers, group, opened]);
}

function rowClass(row: Row): string {
  if (row.kind === 'group') {
    return 'xn-group';
  }
  const level = row.level > 1 ? 'xn-member ' : '';
  return isUsedAfterDonation(row.buffer) ? `${level}xn-row-danger` : level;
}

function bufferFilter(
  chosen: ViewState['buffers']
): (buffer: Buffer) => boolean {
  const needle = chosen.text.toLowerCase();
  return buffer =>
    (chosen.state === 'all' ||
      (chosen.state === 'danger'
        ? isUsedAfterDonation(buffer)
        : buffer.state === chosen.state)) &&
    (chosen.owner === 'all' ||
      buffer.owners.some(owner => owner.kind === chosen.owner)) &&
    (!needle ||
      namesOf(buffer).toLowerCase().includes(needle) ||
      handleText(buffer.handle) === needle.replace(/^0x/, ''));
}
