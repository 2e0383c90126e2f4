/** What the plugins make of what a kernel tells: plain functions and classes, without JupyterLab at run time. */
import type { TranslationBundle } from '@jupyterlab/translation';

import { EventRow } from '../protocol/messages';
import { Client } from '../store/client';
import { bytesText } from '../view/format';
import { savedBytes } from '../view/header';
import type { PreferenceValues } from './preferences';

const MIB = 2 ** 20;

/** Finds the hazards of one kernel that are new, each once. */
export class NewHazards {
  // The newest event that was looked at; null before anything was.
  private seen: number | null = null;

  /** Those since the last call. What is there at the first one is old, unless `fromStart`. */
  take(rows: readonly EventRow[], fromStart: boolean): EventRow[] {
    const newest = rows.length ? rows[rows.length - 1].seq : -1;
    if (this.seen === null || newest < this.seen) {
      // The first look, or the kernel began anew.
      this.seen = fromStart ? -1 : newest;
    }
    const found: EventRow[] = [];
    for (let at = rows.length - 1; at >= 0; at -= 1) {
      if (rows[at].seq <= this.seen) {
        break;
      }
      if (rows[at].kind === 'hazard') {
        found.unshift(rows[at]);
      }
    }
    this.seen = newest;
    return found;
  }
}

/** What there is to say of a kernel at a glance; `hazards` counts all since it began. */
export interface StatusFacts {
  graphs: number;
  savedNbytes: number;
  hazards: number;
}

/** The same in words. */
export interface StatusTexts {
  text: string;
  hazards: string | null;
  /** What is over the user's thresholds. */
  warnings: string[];
}

export function statusTexts(
  facts: StatusFacts,
  limits: Pick<PreferenceValues, 'graphsWarning' | 'savedMiBWarning'>,
  trans: TranslationBundle
): StatusTexts {
  const { graphs, savedNbytes, hazards } = facts;
  const warnings: string[] = [];
  if (limits.graphsWarning > 0 && graphs > limits.graphsWarning) {
    warnings.push(
      trans._n(
        'more than %1 graph',
        'more than %1 graphs',
        limits.graphsWarning
      )
    );
  }
  if (
    limits.savedMiBWarning > 0 &&
    savedNbytes > limits.savedMiBWarning * MIB
  ) {
    warnings.push(
      trans.__('more than %1 MiB in saved buffers', limits.savedMiBWarning)
    );
  }
  return {
    text: trans.__(
      'XLA: %1, %2 saved',
      trans._n('%1 graph', '%1 graphs', graphs),
      bytesText(savedNbytes)
    ),
    hazards: hazards > 0 ? trans._n('%1 hazard', '%1 hazards', hazards) : null,
    warnings
  };
}

export function statusFacts(client: Client): StatusFacts {
  let graphs = 0;
  client.model.graphs.forEach(({ state }) => {
    graphs += Number(state !== 'dropped');
  });
  return {
    graphs,
    savedNbytes: savedBytes(client),
    hazards: client.model.counts.hazard ?? 0
  };
}
