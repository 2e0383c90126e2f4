import { JSX } from 'preact';
import { Sort } from '../viewState';
import { Column } from './grid';

interface HeadProps<Row> {
  columns: readonly Column<Row>[];
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** The arrow down was pressed: the focus goes to the rows. */
  onLeave: () => void;
}

/** Titles; those of sortable columns are buttons, and together one stop of the Tab key. */
export function GridHead<Row>(props: HeadProps<Row>): JSX.Element {
  const { columns, sort, onSort } = props;
  const sortable = columns.filter(column => column.sort && onSort);
  const stop =
    sortable.find(column => column.id === sort?.column) ?? sortable[0];
  const onKeyDown = (event: KeyboardEvent): void => {
    const button = event.target as HTMLElement;
    const head = event.currentTarget as HTMLElement;
    const buttons = Array.from(head.querySelectorAll('button'));
    const at = buttons.findIndex(other => other === button);
    const step: Partial<Record<string, number>> = {
      ArrowLeft: -1,
      ArrowRight: 1
    };
    const by = step[event.key];
    if (by !== undefined) {
      buttons[(at + by + buttons.length) % buttons.length].focus();
    } else if (event.key === 'ArrowDown') {
      props.onLeave();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="xn-head" role="rowgroup" onKeyDown={onKeyDown}>
      <div class="xn-row" role="row" aria-rowindex={1}>
        {columns.map(column => {
          const order = sort?.column === column.id ? sort : undefined;
          return (
            <div
              key={column.id}
              role="columnheader"
              class={column.right ? 'xn-cell xn-right' : 'xn-cell'}
              aria-sort={ariaSort(order)}
            >
              {column.sort && onSort ? (
                <button
                  type="button"
                  tabIndex={column === stop ? 0 : -1}
                  onClick={() =>
                    onSort({
                      column: column.id,
                      descending: order
                        ? !order.descending
                        : column.right === true
                    })
                  }
                >
                  {column.title}
                  <span aria-hidden="true" class="xn-arrow">
                    {order ? (order.descending ? '▾' : '▴') : ''}
                  </span>
                </button>
              ) : (
                column.title
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function ariaSort(
  order: Sort | undefined
): 'ascending' | 'descending' | undefined {
  return order && (order.descending ? 'descending' : 'ascending');
}
