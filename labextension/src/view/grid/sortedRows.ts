export type SortKey = number | string;

interface Entry<Row> {
  row: Row;
  key: SortKey;
  shown: boolean;
}

export interface Arrangement<Row> {
  /** Names the order and the filter: when it changes, all is arranged anew. */
  id: string;
  sortKey(row: Row): SortKey;
  descending: boolean;
  shows(row: Row): boolean;
}

/**
 * A map's rows in order and filtered, kept from one update to the next.
 *
 * Only rows that are other objects than before are looked at again, and the old order is where the sort
 * begins: JavaScript's sort takes about one comparison per row of a list that is nearly in order.
 */
export class SortedRows<Id, Row> {
  rows: Row[] = [];
  private entries: Entry<Row>[] = [];
  private arranged = '';
  private version = -1;

  constructor(private readonly idOf: (row: Row) => Id) {}

  update(
    source: ReadonlyMap<Id, Row>,
    version: number,
    arrangement: Arrangement<Row>
  ): Row[] {
    const anew = arrangement.id !== this.arranged;
    if (!anew && version === this.version) {
      return this.rows;
    }
    this.entries = this.renewed(source, arrangement, anew);
    const sign = arrangement.descending ? -1 : 1;
    this.entries.sort((a, b) =>
      a.key < b.key ? -sign : a.key > b.key ? sign : 0
    );
    this.rows = this.entries
      .filter(entry => entry.shown)
      .map(entry => entry.row);
    this.arranged = arrangement.id;
    this.version = version;
    return this.rows;
  }

  private renewed(
    source: ReadonlyMap<Id, Row>,
    { sortKey, shows }: Arrangement<Row>,
    anew: boolean
  ): Entry<Row>[] {
    const entryOf = (row: Row): Entry<Row> => ({
      row,
      key: sortKey(row),
      shown: shows(row)
    });
    if (anew) {
      return [...source.values()].map(entryOf);
    }
    const kept: Entry<Row>[] = [];
    for (const entry of this.entries) {
      const row = source.get(this.idOf(entry.row));
      if (row !== undefined) {
        kept.push(row === entry.row ? entry : entryOf(row));
      }
    }
    if (kept.length < source.size) {
      const known = new Set(kept.map(entry => this.idOf(entry.row)));
      for (const [id, row] of source) {
        if (!known.has(id)) {
          kept.push(entryOf(row));
        }
      }
    }
    return kept;
  }
}
