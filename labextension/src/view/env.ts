import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { Cell, Place } from '../protocol/messages';
import { Client } from '../store/client';
import { countText } from './format';
import { ViewStore } from './viewState';

type Argument = string | number;

/** The text in the reader's language, with `%1`, `%2`, ... replaced by `args`. */
export interface Translate {
  (text: string, ...args: Argument[]): string;
  /** The one of two texts that fits `count`, which is its `%1`; `args` come after it. */
  plural(one: string, many: string, count: number, ...args: Argument[]): string;
}

/** What every part of the view can reach. */
export interface Env {
  client: Client;
  t: Translate;
  view: ViewStore;
  /** Goes to a place in the notebook; undefined where the page cannot. */
  openPlace: ((place: Place | null, cell: Cell | null) => void) | undefined;
}

export const EnvContext = createContext<Env | null>(null);

export function useEnv(): Env {
  const env = useContext(EnvContext);
  if (!env) {
    throw new Error('The view was mounted without its context.');
  }
  return env;
}

/** English, and the arguments put in. */
export const untranslated: Translate = Object.assign(
  (text: string, ...args: Argument[]) =>
    text.replace(/%(\d)/g, (whole, digit: string) => {
      const index = Number(digit) - 1;
      return index >= 0 && index < args.length ? String(args[index]) : whole;
    }),
  {
    plural: (
      one: string,
      many: string,
      count: number,
      ...args: Argument[]
    ): string =>
      untranslated(count === 1 ? one : many, countText(count), ...args)
  }
);

/** Do what the kernel may refuse; why it did is shown below the header. */
export function attempt(client: Client, promise: Promise<unknown>): void {
  promise.catch((error: unknown) => client.report(errorText(error)));
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
