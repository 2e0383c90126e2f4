import { ComponentChildren, JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Sort } from '../viewState';
import { GridHead } from './gridHead';
import { Pure } from './pure';
import { SortKey } from './sortedRows';
import { useSize, useWindow } from './useWindow';
import { useUniqueId } from '../useUniqueId';

export const ROW_HEIGHT = 24;

export interface Column<Row> {
  id: string;
  title: string;
  /** A track of a CSS grid. */
  width: string;
  /** The grid's width in px from which on there is room for it. */
  from?: number;
  right?: boolean;
  sort?: (row: Row) => SortKey;
  cell: (row: Row) => ComponentChildren;
}

type Key = number | string;

interface GridProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => Key;
  rowClass?: (row: Row) => string;
  /** For rows that hold others: whether they are open; undefined for plain rows. */
  expanded?: (row: Row) => boolean | undefined;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  selected?: Key | null;
  onOpen: (row: Row) => void;
  onEscape?: () => void;
  /** A row that is scrolled to whenever this becomes another one. */
  reveal?: Key | null;
  /** Whether new rows at the end come into sight, as long as the end is in sight. */
  follow?: boolean;
}

/**
 * A table of which only the rows in sight exist, all of one height.
 *
 * The grid has the focus, and names its active row: a row with the focus would lose it when scrolled away.
 */
export function Grid<Row>(props: GridProps<Row>): JSX.Element {
  const { rows, rowKey } = props;
  const id = useUniqueId();
  const ref = useRef<HTMLDivElement>(null);
  const width = useSize(ref).width;
  const columns = useFitting(props.columns, width);
  const view = useWindow(ref, rows.length, ROW_HEIGHT, ROW_HEIGHT);
  const [activeKey, setActiveKey] = useState<Key | null>(null);
  useReveal(props.reveal, rows, rowKey, (index, key) => {
    setActiveKey(key);
    view.scrollTo(index, 'center');
  });
  const onScroll = useFollowing(
    ref,
    rows.length,
    props.follow === true,
    view.onScroll
  );

  const move = (index: number): void => {
    const to = Math.max(0, Math.min(rows.length - 1, index));
    setActiveKey(rowKey(rows[to]));
    view.scrollTo(to);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape' && props.onEscape) {
      props.onEscape();
    } else if (event.target === ref.current && rows.length) {
      const index = rows.findIndex(row => rowKey(row) === activeKey);
      const page = Math.max(1, view.last - view.first - 14);
      const moves: Record<string, number> = {
        ArrowDown: index + 1,
        ArrowUp: index - 1,
        PageDown: index + page,
        PageUp: index - page,
        Home: 0,
        End: rows.length - 1
      };
      if (event.key in moves) {
        move(moves[event.key]);
      } else if ((event.key === 'Enter' || event.key === ' ') && index >= 0) {
        props.onOpen(rows[index]);
      } else {
        return;
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const onClick = (event: MouseEvent): void => {
    const target = event.target as Element;
    const row = target.closest<HTMLElement>('[data-index]');
    if (!row || target.closest('button')) {
      return;
    }
    const picked = rows[Number(row.dataset.index)];
    setActiveKey(rowKey(picked));
    props.onOpen(picked);
  };

  const tracks = columns.map(column => column.width).join(' ');
  const shown = rows.slice(view.first, view.last);
  const activeShown = shown.some(row => rowKey(row) === activeKey);
  return (
    <div
      class="xn-grid"
      ref={ref}
      role={props.expanded ? 'treegrid' : 'grid'}
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-activedescendant={
        activeShown && activeKey !== null ? rowId(id, activeKey) : undefined
      }
      tabIndex={0}
      style={{ '--xn-tracks': tracks }}
      onKeyDown={onKeyDown}
      onClick={onClick}
      onScroll={onScroll}
    >
      <GridHead
        columns={columns}
        sort={props.sort}
        onSort={props.onSort}
        onLeave={() => ref.current?.focus()}
      />
      <div
        class="xn-body"
        role="rowgroup"
        style={{ height: `${rows.length * ROW_HEIGHT}px` }}
      >
        {shown.map((row, offset) => {
          const key = rowKey(row);
          return (
            <GridRow
              key={key}
              id={rowId(id, key)}
              row={row}
              index={view.first + offset}
              columns={columns as readonly Column<unknown>[]}
              class={props.rowClass?.(row) ?? ''}
              active={key === activeKey}
              selected={key === props.selected}
              expanded={props.expanded?.(row)}
            />
          );
        })}
      </div>
    </div>
  );
}

/** Stays at the end of a list that grows, unless scrolled away from it. */
function useFollowing(
  ref: RefObject<HTMLElement>,
  count: number,
  follow: boolean,
  onScroll: () => void
): () => void {
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (follow && atEnd.current && ref.current) {
      ref.current.scrollTop = ref.current.scrollHeight;
      onScroll();
    }
  }, [count]);
  return () => {
    const element = ref.current;
    if (element) {
      const below =
        element.scrollHeight - element.scrollTop - element.clientHeight;
      atEnd.current = below < ROW_HEIGHT;
    }
    onScroll();
  };
}

interface RowProps {
  id: string;
  row: unknown;
  index: number;
  columns: readonly Column<unknown>[];
  class: string;
  active: boolean;
  selected: boolean;
  expanded: boolean | undefined;
}

class GridRow extends Pure<RowProps> {
  render(): JSX.Element {
    const { row, index, columns, active, selected, expanded } = this.props;
    return (
      <div
        id={this.props.id}
        role="row"
        class={`xn-row ${this.props.class}${active ? ' xn-active' : ''}${selected ? ' xn-selected' : ''}`}
        aria-rowindex={index + 2}
        aria-selected={selected}
        aria-expanded={expanded}
        data-index={index}
        style={{ top: `${index * ROW_HEIGHT}px` }}
      >
        {columns.map(column => (
          <div
            key={column.id}
            role="gridcell"
            class={column.right ? 'xn-cell xn-right' : 'xn-cell'}
          >
            {column.cell(row)}
          </div>
        ))}
      </div>
    );
  }
}

function rowId(grid: string, key: Key): string {
  return `${grid}-${String(key).replace(/\s/g, '_')}`;
}

/** The columns that there is room for; the same array as long as they are the same. */
function useFitting<Row>(
  columns: readonly Column<Row>[],
  width: number
): readonly Column<Row>[] {
  const last = useRef<readonly Column<Row>[]>([]);
  const fitting = columns.filter(
    column => width === 0 || width >= (column.from ?? 0)
  );
  const same =
    fitting.length === last.current.length &&
    fitting.every((column, index) => column === last.current[index]);
  if (!same) {
    last.current = fitting;
  }
  return last.current;
}

function useReveal<Row>(
  key: Key | null | undefined,
  rows: readonly Row[],
  rowKey: (row: Row) => Key,
  go: (index: number, key: Key) => void
): void {
  useEffect(() => {
    const index =
      key === null || key === undefined
        ? -1
        : rows.findIndex(row => rowKey(row) === key);
    if (index >= 0) {
      go(index, rowKey(rows[index]));
    }
    // Only a change of `key` scrolls: rows that come and go must not.
  }, [key]);
}
