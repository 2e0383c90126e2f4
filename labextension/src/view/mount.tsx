import { render } from 'preact';
import { Cell, Place } from '../protocol/messages';
import { Client } from '../store/client';
import { App } from './app';
import { Env, EnvContext, Translate, untranslated } from './env';
import { graphsOfCell } from './graphs/facts';
import { PanelName, PANELS, ViewStorage, ViewStore } from './viewState';
import { watchVisibility } from './visibility';

export interface ViewOptions {
  /** Goes to a line or cell of the notebook. Without it places are text, not links. */
  openPlace?: (place: Place | null, cell: Cell | null) => void;
  translate?: Translate;
  /** Which panels there are; all by default. */
  panels?: readonly PanelName[];
  /** Where the panel and the orders are remembered; nowhere by default. */
  storage?: ViewStorage;
}

/** What a host can do with a view that it mounted. */
export interface MountedView {
  /** Show one panel, with one of its rows opened where a key is given. */
  show(panel: PanelName, key?: number | string): void;
  /** Show the graphs of one cell: the only one opened, several as a list. */
  showGraphsOf(cell: Cell): void;
  dispose(): void;
}

/** Draw `client`'s kernel into `element`, until disposed of. */
export function mountView(
  element: HTMLElement,
  client: Client,
  options: ViewOptions = {}
): MountedView {
  const draw = (): void => {
    render(
      <EnvContext.Provider value={env}>
        <App panels={options.panels ?? PANELS} />
      </EnvContext.Provider>,
      element
    );
  };
  const view = new ViewStore(draw, options.storage);
  const env: Env = {
    client,
    view,
    t: options.translate ?? untranslated,
    openPlace: options.openPlace
  };
  const viewer = client.addViewer();
  const disposers = [
    client.subscribe(draw),
    watchVisibility(element, visible => viewer.setVisible(visible)),
    () => viewer.dispose()
  ];
  draw();
  return {
    show: (panel, key) => view.set({ panel, ...selection(panel, key) }),
    showGraphsOf: cell => {
      const found = graphsOfCell(client.model.graphs.values(), cell);
      view.set({
        panel: 'graphs',
        graphs: { ...view.state.graphs, text: '', state: 'cached', cell },
        graphId: found.length === 1 ? found[0].graph_id : null
      });
    },
    dispose: () => {
      disposers.forEach(dispose => dispose());
      render(null, element);
    }
  };
}

function selection(
  panel: PanelName,
  key: number | string | undefined
): Record<string, number | string> {
  const field = {
    graphs: 'graphId',
    buffers: 'bufferKey',
    events: 'eventSeq',
    settings: null
  }[panel];
  return field !== null && key !== undefined ? { [field]: key } : {};
}
