import { ComponentChildren } from 'preact';
import { Buffer } from '../../protocol/messages';
import { Translate } from '../env';
import { bytesText, handleText, naturalKey, shapeText } from '../format';
import { Column } from '../grid/grid';
import { BUFFER_STATES } from '../kinds';
import { Group, namesOf, ownerKinds } from './facts';

/** A row of the table: a buffer, or a group of them. */
export type Row =
  | { kind: 'buffer'; key: string; buffer: Buffer; level: number }
  | { kind: 'group'; key: string; group: Group; open: boolean };

interface BufferColumn extends Omit<Column<Row>, 'sort' | 'cell'> {
  sort: (buffer: Buffer) => number | string;
  cell: (buffer: Buffer) => ComponentChildren;
  ofGroup?: (group: Group, open: boolean) => ComponentChildren;
}

export function bufferColumns(t: Translate): BufferColumn[] {
  return [
    {
      id: 'names',
      title: t('names'),
      width: 'minmax(8em, 2fr)',
      sort: buffer => naturalKey(namesOf(buffer)),
      cell: buffer => (
        <span title={namesOf(buffer)}>{namesOf(buffer) || '–'}</span>
      ),
      ofGroup: (group, open) => (
        <b>
          <span aria-hidden="true">{open ? '▾ ' : '▸ '}</span>
          {group.name}
        </b>
      )
    },
    {
      id: 'handle',
      title: t('handle'),
      width: '7em',
      from: 520,
      sort: buffer => buffer.handle ?? -1,
      cell: buffer => <code>{handleText(buffer.handle) || '–'}</code>,
      ofGroup: group =>
        t.plural('%1 buffer', '%1 buffers', group.buffers.length)
    },
    {
      id: 'shape',
      title: t('shape'),
      width: 'minmax(5em, 1fr)',
      from: 420,
      sort: buffer => naturalKey(shapeText(buffer.shape)),
      cell: buffer => shapeText(buffer.shape)
    },
    {
      id: 'dtype',
      title: t('dtype'),
      width: '5.5em',
      from: 620,
      sort: buffer => buffer.dtype,
      cell: buffer => buffer.dtype
    },
    {
      id: 'bytes',
      title: t('bytes'),
      width: '5.5em',
      right: true,
      sort: buffer => buffer.nbytes,
      cell: buffer => bytesText(buffer.nbytes),
      ofGroup: group => bytesText(group.nbytes)
    },
    {
      id: 'owners',
      title: t('owners'),
      width: 'minmax(6em, 1fr)',
      from: 760,
      sort: buffer => ownerKinds(buffer).join(),
      cell: buffer => ownerKinds(buffer).join(', ')
    },
    {
      id: 'state',
      title: t('state'),
      width: '5.5em',
      sort: buffer => buffer.state,
      cell: buffer => (
        <span
          class={`xn-state xn-is-${buffer.state}`}
          title={t(BUFFER_STATES[buffer.state])}
        >
          {buffer.state}
        </span>
      )
    }
  ];
}

/** The same columns for rows that are buffers or groups. */
export function rowColumns(columns: readonly BufferColumn[]): Column<Row>[] {
  return columns.map(column => ({
    ...column,
    // The rows come in order; a grid only asks whether a column can be sorted.
    sort: row => (row.kind === 'buffer' ? column.sort(row.buffer) : ''),
    cell: row =>
      row.kind === 'buffer'
        ? column.cell(row.buffer)
        : column.ofGroup?.(row.group, row.open)
  }));
}
