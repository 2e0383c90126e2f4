import { useState } from 'preact/hooks';

/**
 * An id that nothing else in the document has.
 *
 * Preact's own are unique within one root, but a page may hold several views, the widget's and the sidebar's,
 * from different bundles; radio buttons of one name would exclude each other across them.
 */
export function useUniqueId(): string {
  const [id] = useState(() => `xn-${Math.random().toString(36).slice(2)}`);
  return id;
}
