import { ComponentChildren, JSX } from 'preact';
import { Cell, Place } from '../protocol/messages';
import { useEnv } from './env';

/** A place as a link where the page can go there, else as text. */
export function PlaceLink(props: {
  place: Place | null;
  cell: Cell | null;
  /** In a row the Tab key passes it by: the row's details have one that it stops at. */
  inRow?: boolean;
}): JSX.Element | null {
  const { openPlace, t } = useEnv();
  const { place, cell } = props;
  const text = place?.text ?? (cell ? t('cell %1', cell.execution_count) : '');
  if (!text || !openPlace) {
    return text ? <span>{text}</span> : null;
  }
  return (
    <button
      type="button"
      class="xn-link"
      tabIndex={props.inRow ? -1 : 0}
      title={t('Go to %1', text)}
      onClick={() => openPlace(place, cell)}
    >
      {text}
    </button>
  );
}

export function Choice(props: {
  label: string;
  value: string;
  choices: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <select
      class="xn-input"
      aria-label={props.label}
      title={props.label}
      value={props.value}
      onChange={event => props.onChange(event.currentTarget.value)}
    >
      {props.choices.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

export function TextFilter(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <input
      class="xn-input xn-grow"
      type="search"
      aria-label={props.label}
      placeholder={props.label}
      value={props.value}
      onInput={event => props.onChange(event.currentTarget.value)}
    />
  );
}

export function Empty({
  children
}: {
  children: ComponentChildren;
}): JSX.Element {
  return <p class="xn-empty">{children}</p>;
}

/** The details of a row, beside or below the table. Escape closes them. */
export function Details(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const { t } = useEnv();
  return (
    <section
      class="xn-details"
      aria-label={props.title}
      tabIndex={0}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          props.onClose();
        }
      }}
    >
      <div class="xn-details-head">
        <h3>{props.title}</h3>
        <button
          type="button"
          class="xn-button"
          aria-label={t('Close')}
          onClick={props.onClose}
        >
          ✕
        </button>
      </div>
      {props.children}
    </section>
  );
}
