import { useRef } from 'preact/hooks';

/** What `compute` returned when `version` became what it is. */
export function useVersioned<T>(version: number | string, compute: () => T): T {
  const last = useRef<{ version: number | string; value: T } | null>(null);
  if (last.current?.version !== version) {
    last.current = { version, value: compute() };
  }
  return last.current.value;
}
