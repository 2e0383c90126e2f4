/**
 * How this view looks at the kernel's facts: which panel, order, filter, selection.
 *
 * It belongs to the page alone and is never sent. What the kernel knows is in `store/model.ts` and is never
 * copied here.
 */
import { Cell } from '../protocol/messages';
import { OwnerKind, BufferState, EventKind, GraphState } from './kinds';

export const PANELS = ['graphs', 'buffers', 'events', 'settings'] as const;
export type PanelName = (typeof PANELS)[number];

export interface Sort {
  column: string;
  descending: boolean;
}

export interface ViewState {
  panel: PanelName;
  graphs: {
    sort: Sort;
    text: string;
    state: GraphState | 'cached' | 'all';
    /** The cell whose graphs alone are shown. */
    cell: Cell | null;
  };
  buffers: {
    sort: Sort;
    text: string;
    state: BufferState | 'danger' | 'all';
    owner: OwnerKind | 'all';
    group: 'none' | 'owner' | 'state' | 'name';
  };
  events: { text: string; kind: EventKind | 'danger' | 'all' };
  graphId: number | null;
  bufferKey: string | null;
  eventSeq: number | null;
}

const INITIAL: ViewState = {
  panel: 'graphs',
  graphs: {
    sort: { column: 'time', descending: false },
    text: '',
    state: 'cached',
    cell: null
  },
  buffers: {
    sort: { column: 'bytes', descending: true },
    text: '',
    state: 'all',
    owner: 'all',
    group: 'none'
  },
  events: { text: '', kind: 'all' },
  graphId: null,
  bufferKey: null,
  eventSeq: null
};

const STORAGE_KEY = 'xla-notebook:view';

export type ViewStorage = Pick<Storage, 'getItem' | 'setItem'>;

/** Holds the view's state, tells when it changes, and remembers the panel and the orders in `storage`. */
export class ViewStore {
  private current: ViewState;

  constructor(
    private readonly onChange: () => void,
    private readonly storage?: ViewStorage
  ) {
    this.current = { ...INITIAL, ...this.remembered() };
  }

  get state(): ViewState {
    return this.current;
  }

  set(patch: Partial<ViewState>): void {
    this.current = { ...this.current, ...patch };
    this.remember();
    this.onChange();
  }

  private remember(): void {
    const { panel, graphs, buffers } = this.current;
    const kept = {
      panel,
      graphSort: graphs.sort,
      bufferSort: buffers.sort,
      group: buffers.group
    };
    this.storage?.setItem(STORAGE_KEY, JSON.stringify(kept));
  }

  // What another version wrote may be anything: take what fits, and nothing else.
  private remembered(): Partial<ViewState> {
    let kept: unknown = null;
    try {
      kept = JSON.parse(this.storage?.getItem(STORAGE_KEY) ?? 'null');
    } catch {
      return {};
    }
    const { panel, graphSort, bufferSort, group } = (kept ?? {}) as Record<
      string,
      unknown
    >;
    return {
      panel: oneOf(PANELS, panel, INITIAL.panel),
      graphs: {
        ...INITIAL.graphs,
        sort: sortOr(graphSort, INITIAL.graphs.sort)
      },
      buffers: {
        ...INITIAL.buffers,
        sort: sortOr(bufferSort, INITIAL.buffers.sort),
        group: oneOf(
          ['none', 'owner', 'state', 'name'],
          group,
          INITIAL.buffers.group
        )
      }
    };
  }
}

function oneOf<T extends string>(
  allowed: readonly T[],
  value: unknown,
  otherwise: T
): T {
  return allowed.find(choice => choice === value) ?? otherwise;
}

function sortOr(value: unknown, otherwise: Sort): Sort {
  const { column, descending } = (value ?? {}) as Record<string, unknown>;
  return typeof column === 'string' && typeof descending === 'boolean'
    ? { column, descending }
    : otherwise;
}
