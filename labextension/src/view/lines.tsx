import { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useWindow } from './grid/useWindow';

const LINE_HEIGHT = 18;

/** Lines of text of which only those in sight exist. */
export function Lines(props: {
  label: string;
  count: number;
  line: (index: number) => ComponentChildren;
  lineClass?: (index: number) => string;
  /** The line that is scrolled to when it becomes another one. */
  reveal?: number;
}): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const view = useWindow(ref, props.count, LINE_HEIGHT);
  useEffect(() => {
    if (props.reveal !== undefined) {
      view.scrollTo(props.reveal, 'center');
    }
  }, [props.reveal]);
  const indices = Array.from(
    { length: view.last - view.first },
    (_, offset) => view.first + offset
  );
  return (
    <div
      class="xn-lines"
      ref={ref}
      role="region"
      aria-label={props.label}
      tabIndex={0}
      onScroll={view.onScroll}
    >
      <div style={{ height: `${props.count * LINE_HEIGHT}px` }}>
        <div style={{ paddingTop: `${view.first * LINE_HEIGHT}px` }}>
          {indices.map(index => (
            <div
              key={index}
              class={`xn-line ${props.lineClass?.(index) ?? ''}`}
            >
              {props.line(index)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
