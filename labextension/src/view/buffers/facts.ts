/** Pure functions on buffers. */
import { Buffer, EventRow, Owner } from '../../protocol/messages';
import { OwnerKind } from '../kinds';

/** The names of what keeps a buffer, each once. */
export function namesOf(buffer: Buffer): string {
  return [...new Set(buffer.owners.map(owner => owner.name))].join(', ');
}

export function ownerKinds(buffer: Buffer): OwnerKind[] {
  return [...new Set(buffer.owners.map(owner => owner.kind))];
}

/** Whether someone counts on a buffer that is gone: the next use fails or must recover. */
export function isUsedAfterDonation(buffer: Buffer): boolean {
  return (
    buffer.state === 'stale' ||
    (buffer.state === 'donated' && buffer.owners.length > 0)
  );
}

export type Share = OwnerKind | 'shared' | 'nobody';

/** Bytes of live buffers by what kind of owner alone keeps them; `shared` are those that several kinds keep. */
export function bytesByOwner(buffers: Iterable<Buffer>): Map<Share, number> {
  const sums = new Map<Share, number>();
  for (const buffer of buffers) {
    if (buffer.state === 'live') {
      const kinds = ownerKinds(buffer);
      const share =
        kinds.length > 1 ? 'shared' : kinds.length ? kinds[0] : 'nobody';
      sums.set(share, (sums.get(share) ?? 0) + buffer.nbytes);
    }
  }
  return new Map([...sums].sort((a, b) => b[1] - a[1]));
}

export interface Group {
  name: string;
  buffers: Buffer[];
  nbytes: number;
}

export type Grouping = 'owner' | 'state' | 'name';

/** The buffers by owner, state or name, those with most bytes first. One with two owners is in both groups. */
export function groupBuffers(
  buffers: readonly Buffer[],
  by: Grouping
): Group[] {
  const groups = new Map<string, Group>();
  for (const buffer of buffers) {
    for (const name of groupNames(buffer, by)) {
      const group = groups.get(name) ?? { name, buffers: [], nbytes: 0 };
      group.buffers.push(buffer);
      group.nbytes += buffer.state === 'live' ? buffer.nbytes : 0;
      groups.set(name, group);
    }
  }
  return [...groups.values()].sort((a, b) => b.nbytes - a.nbytes);
}

function groupNames(buffer: Buffer, by: Grouping): Iterable<string> {
  if (by === 'state') {
    return [buffer.state];
  }
  const names =
    by === 'owner'
      ? buffer.owners.map(owner => owner.kind)
      : buffer.owners.map(owner => rootName(owner.name));
  return names.length ? new Set(names) : ['no owner'];
}

/** `model` of `model.layers[0].weight`, `step` of `step: constant 0`. */
function rootName(name: string): string {
  return /^[^.[:]+/.exec(name)?.[0] ?? name;
}

/** The events that tell of a buffer: its own, those of what took its memory, and of the graphs that keep it. */
export function historyOf(
  buffer: Buffer,
  events: readonly EventRow[]
): EventRow[] {
  const { handle, owners } = buffer;
  const graphs = new Set(owners.map(owner => owner.graph_id));
  graphs.delete(null);
  return events.filter(
    event =>
      (handle !== null &&
        (event.handle === handle || event.taker_handle === handle)) ||
      (event.kind === 'traced' && graphs.has(event.graph_id)) ||
      // The handle of a dead buffer is not known any more.
      ((handle === null || event.kind === 'hazard') && isNamed(event, owners))
  );
}

/** Whether an event tells of what an owner keeps: of a graph's buffer it says the graph and the name in it. */
function isNamed(event: EventRow, owners: readonly Owner[]): boolean {
  const { name, graph_id } = event;
  return (
    name !== null &&
    owners.some(owner =>
      owner.graph_id === null
        ? owner.name === name
        : owner.graph_id === graph_id && owner.name.endsWith(`: ${name}`)
    )
  );
}

/** Whether an event in a buffer's history says that it, and not another one, was given away. */
export function isDeath(event: EventRow, buffer: Buffer): boolean {
  return (
    event.kind === 'donation' &&
    (buffer.handle === null || event.handle === buffer.handle)
  );
}

/** The event in which a dead buffer was given away, where its history tells of it. */
export function donationOf(
  buffer: Buffer,
  history: readonly EventRow[]
): EventRow | undefined {
  // A live buffer may have the handle of one that was given away before.
  const isDead = buffer.state === 'donated' || buffer.state === 'stale';
  return isDead
    ? history.filter(event => isDeath(event, buffer)).pop()
    : undefined;
}
