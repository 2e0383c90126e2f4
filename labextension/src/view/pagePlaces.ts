/**
 * How a view that is part of a page, as a widget is, goes to places in it: by events of the document, which
 * JupyterLab's side answers. They are the only thing that the two know of each other.
 */
import { Cell, Place } from '../protocol/messages';

const CAN = 'xla-notebook:can-open-place';
const OPEN = 'xla-notebook:open-place';

type OpenPlace = (place: Place | null, cell: Cell | null) => void;
interface Wanted {
  place: Place | null;
  cell: Cell | null;
}

/** What goes to places from `element`; undefined where nothing in its page can. */
export function pagePlaces(element: Element): OpenPlace | undefined {
  const asked = new Event(CAN, { cancelable: true });
  if (element.ownerDocument.dispatchEvent(asked)) {
    return undefined;
  }
  return (place, cell) => {
    const detail: Wanted = { place, cell };
    element.dispatchEvent(new CustomEvent(OPEN, { detail, bubbles: true }));
  };
}

/** Go to places for all views in `page`; `from` is the view's element. */
export function answerPlaces(
  page: Document,
  open: (from: Element, ...wanted: Parameters<OpenPlace>) => void
): void {
  page.addEventListener(CAN, event => {
    event.preventDefault();
  });
  page.addEventListener(OPEN, event => {
    const { place, cell } = (event as CustomEvent<Wanted>).detail;
    open(event.target as Element, place, cell);
  });
}
