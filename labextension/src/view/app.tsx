import { JSX } from 'preact';
import { BuffersPanel } from './buffers/panel';
import { useEnv } from './env';
import { EventsPanel } from './events/panel';
import { Failures } from './failures';
import { GraphsPanel } from './graphs/panel';
import { Header } from './header';
import { SettingsPanel } from './settings/panel';
import { PanelName } from './viewState';
import { useUniqueId } from './useUniqueId';

const PANEL: Record<PanelName, { title: string; view: () => JSX.Element }> = {
  graphs: { title: 'Graphs', view: GraphsPanel },
  buffers: { title: 'Buffers', view: BuffersPanel },
  events: { title: 'Events', view: EventsPanel },
  settings: { title: 'Settings', view: SettingsPanel }
};

/** The whole view: header, what went wrong, and one panel. */
export function App({ panels }: { panels: readonly PanelName[] }): JSX.Element {
  const { view } = useEnv();
  const id = useUniqueId();
  const current = panels.includes(view.state.panel)
    ? view.state.panel
    : panels[0];
  const Panel = PANEL[current].view;
  return (
    <div class="xla-notebook">
      <Header />
      <Failures />
      <Tabs id={id} panels={panels} current={current} />
      <div
        class="xn-panel"
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${current}`}
      >
        <Panel key={current} />
      </div>
    </div>
  );
}

function Tabs(props: {
  id: string;
  panels: readonly PanelName[];
  current: PanelName;
}): JSX.Element {
  const { id, panels, current } = props;
  const { view, t, client } = useEnv();
  const hazards = client.model.counts.hazard ?? 0;
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) {
      return;
    }
    const at = panels.indexOf(current) + step;
    const next = panels[(at + panels.length) % panels.length];
    view.set({ panel: next });
    (event.currentTarget as HTMLElement)
      .querySelector<HTMLElement>(`[data-panel="${next}"]`)
      ?.focus();
    event.preventDefault();
  };
  return (
    <div
      class="xn-tabs"
      role="tablist"
      aria-label={t('Panels')}
      onKeyDown={onKeyDown}
    >
      {panels.map(name => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`${id}-${name}`}
          data-panel={name}
          class="xn-tab"
          aria-selected={name === current}
          aria-controls={name === current ? `${id}-panel` : undefined}
          tabIndex={name === current ? 0 : -1}
          onClick={() => view.set({ panel: name })}
        >
          {t(PANEL[name].title)}
          {name === 'events' && hazards > 0 && (
            <span class="xn-badge xn-danger">{hazards}</span>
          )}
        </button>
      ))}
    </div>
  );
}
