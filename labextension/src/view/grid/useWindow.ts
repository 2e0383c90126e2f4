import { RefObject } from 'preact';
import { useCallback, useLayoutEffect, useState } from 'preact/hooks';

// Rows drawn beyond each edge, so that a fast scroll does not show gaps.
const OVERSCAN = 6;
// Where an element has no size (it is hidden, or there is no layout at all).
const UNKNOWN_HEIGHT = 600;

export interface Window {
  /** Rows from `first` to before `last` are drawn. */
  first: number;
  last: number;
  onScroll: () => void;
  scrollTo: (index: number, where?: 'nearest' | 'center') => void;
}

/** Which of `count` rows of `rowHeight` px are to be drawn in a scrolled element with a header of `head` px. */
export function useWindow(
  ref: RefObject<HTMLElement>,
  count: number,
  rowHeight: number,
  head = 0
): Window {
  const [first, setFirst] = useState(0);
  const height = useSize(ref).height || UNKNOWN_HEIGHT;
  const visible = Math.ceil(height / rowHeight);
  const onScroll = useCallback(() => {
    const top = ref.current?.scrollTop ?? 0;
    setFirst(Math.floor(top / rowHeight));
  }, [ref, rowHeight]);
  const scrollTo = (
    index: number,
    where: 'nearest' | 'center' = 'nearest'
  ): void => {
    const element = ref.current;
    if (!element) {
      return;
    }
    const top = index * rowHeight;
    // As it is now: what is revealed when the element appears comes before its size is known to the state.
    const room = (element.clientHeight || UNKNOWN_HEIGHT) - head - rowHeight;
    if (where === 'center') {
      element.scrollTop = top - room / 2;
    } else if (top < element.scrollTop) {
      element.scrollTop = top;
    } else if (top > element.scrollTop + room) {
      element.scrollTop = top - room;
    }
    onScroll();
  };
  const from = Math.max(0, Math.min(first, count - visible) - OVERSCAN);
  const last = Math.min(count, from + visible + 2 * OVERSCAN);
  return { first: from, last, onScroll, scrollTo };
}

/** The size of an element in px, kept up to date; zeros until it is known. */
export function useSize(ref: RefObject<HTMLElement>): {
  width: number;
  height: number;
} {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) {
      return;
    }
    const measure = (): void => {
      const { clientWidth: width, clientHeight: height } = element;
      setSize(old =>
        old.width === width && old.height === height ? old : { width, height }
      );
    };
    measure();
    if (typeof ResizeObserver === 'undefined') {
      return;
    }
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return size;
}
