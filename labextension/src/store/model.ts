import {
  Buffer,
  Delta,
  Graph,
  Position,
  Settings,
  Snapshot,
  Status
} from '../protocol/messages';
import { EventLog } from './eventLog';
import { RunLog } from './runLog';

/** `gap`: a delta that does not begin where the model is; nothing was changed. */
export type Applied = 'applied' | 'duplicate' | 'gap';

/**
 * What the kernel has told, as of `position`.
 *
 * Rows are never changed, only replaced: who has drawn a row object need not draw it again. The `versions`
 * grow whenever the rows of their kind change.
 */
export class Model {
  position: Position | null = null;
  status: Status | null = null;
  settings: Settings | null = null;
  readonly graphs = new Map<number, Graph>();
  readonly buffers = new Map<string, Buffer>();
  readonly events = new EventLog();
  readonly runs = new RunLog();
  /** How many events of each kind there have been, also those that no one holds any more. */
  counts: Readonly<Partial<Record<string, number>>> = {};
  readonly versions = { graphs: 0, buffers: 0 };

  applySnapshot(snapshot: Snapshot): void {
    // When the runs before the first one were is not known.
    if (this.position) {
      this.countRuns(snapshot);
    }
    this.graphs.clear();
    this.buffers.clear();
    this.takeGraphs(snapshot.graphs, []);
    this.takeBuffers(snapshot.buffers, []);
    this.versions.graphs += 1;
    this.versions.buffers += 1;
    this.events.reset(snapshot.events);
    this.takeRest(snapshot);
  }

  applyDelta(delta: Delta): Applied {
    if (!this.position || !same(delta.since, this.position)) {
      return same(delta.at, this.position) ? 'duplicate' : 'gap';
    }
    this.countRuns(delta);
    this.takeGraphs(delta.graphs, delta.graphs_gone);
    this.takeBuffers(delta.buffers, delta.buffers_gone);
    this.events.append(delta.events);
    this.takeRest(delta);
    return 'applied';
  }

  clear(): void {
    this.position = null;
    this.status = null;
    this.settings = null;
    this.counts = {};
    this.graphs.clear();
    this.buffers.clear();
    this.events.clear();
    this.runs.clear();
    this.versions.graphs += 1;
    this.versions.buffers += 1;
  }

  /** The runs since what is known of the graphs. */
  private countRuns({ graphs, time_ms }: Snapshot | Delta): void {
    const more = graphs.map(
      ({ graph_id, runs }) => runs - (this.graphs.get(graph_id)?.runs ?? 0)
    );
    this.runs.add(
      time_ms,
      more.reduce((sum, count) => sum + Math.max(0, count), 0)
    );
  }

  private takeGraphs(changed: Graph[], gone: number[]): void {
    gone.forEach(id => this.graphs.delete(id));
    changed.forEach(graph => this.graphs.set(graph.graph_id, graph));
    this.versions.graphs += gone.length + changed.length;
  }

  private takeBuffers(changed: Buffer[], gone: string[]): void {
    gone.forEach(key => this.buffers.delete(key));
    changed.forEach(buffer => this.buffers.set(buffer.key, buffer));
    this.versions.buffers += gone.length + changed.length;
  }

  private takeRest(push: Snapshot | Delta): void {
    this.position = push.at;
    this.status = push.status;
    this.settings = push.settings;
    this.counts = push.counts;
    this.events.total = push.event_total;
  }
}

function same(a: Position, b: Position | null): boolean {
  return b !== null && a.session === b.session && a.look === b.look;
}
