/** Door 1: the anywidget module. One client for each widget, one view wherever the widget is shown. */
import viewStyle from '../style/view.css';
import widgetStyle from '../style/widget.css';
import { Request } from './protocol/messages';
import { Transport, TransportState } from './protocol/transport';
import { Client } from './store/client';
import { mountView } from './view/mount';
import { pagePlaces } from './view/pagePlaces';

/** What is used of anywidget's model. */
interface WidgetModel {
  on(event: string, listener: (...args: unknown[]) => void): void;
  off(event: string, listener: (...args: unknown[]) => void): void;
  send(content: unknown): void;
}

interface Initialize {
  model: WidgetModel;
}

interface Render extends Initialize {
  el: HTMLElement;
}

const STYLE_ID = 'xla-notebook-style';
// While this is in an output area, the style sheet hides the copy of the last state below it.
const LIVE_CLASS = 'xla-notebook-live';
const WIDGET_CLASS = 'xla-notebook-widget';

const clients = new WeakMap<WidgetModel, Client>();

/** The messages of a widget's model. */
class ModelTransport implements Transport {
  private readonly stateListeners = new Set<(state: TransportState) => void>();

  constructor(private readonly model: WidgetModel) {}

  send(request: Request): void {
    try {
      this.model.send(request);
    } catch {
      // Its comm is gone: when a kernel restarts, JupyterLab disposes of comms without a word.
      this.stateListeners.forEach(listener => {
        listener('closed');
      });
    }
  }

  onMessage(listener: (data: unknown) => void): () => void {
    return this.listen('msg:custom', (_content, buffers) => {
      listener((buffers as DataView[])[0]);
    });
  }

  onState(listener: (state: TransportState) => void): () => void {
    this.stateListeners.add(listener);
    const closed = (): void => {
      listener('closed');
    };
    // The second one is how the widgets' manager takes leave of a kernel that restarts.
    const stops = ['comm:close', 'comm_live_update'].map(event =>
      this.listen(event, closed)
    );
    return () => {
      this.stateListeners.delete(listener);
      stops.forEach(stop => {
        stop();
      });
    };
  }

  private listen(
    event: string,
    listener: (...args: unknown[]) => void
  ): () => void {
    this.model.on(event, listener);
    return () => {
      this.model.off(event, listener);
    };
  }
}

/** The client of a widget, made when it is first asked for. */
function clientOf(model: WidgetModel): Client {
  let client = clients.get(model);
  if (!client) {
    client = new Client();
    client.connect(new ModelTransport(model));
    clients.set(model, client);
  }
  return client;
}

function addStyle(page: Document): void {
  if (!page.getElementById(STYLE_ID)) {
    const style = page.createElement('style');
    style.id = STYLE_ID;
    style.textContent = viewStyle + widgetStyle;
    page.head.append(style);
  }
}

function initialize({ model }: Initialize): () => void {
  clientOf(model);
  return () => {
    clients.get(model)?.disconnect('the widget was closed');
    clients.delete(model);
  };
}

function render({ model, el }: Render): () => void {
  addStyle(el.ownerDocument);
  el.classList.add(WIDGET_CLASS);
  const client = clientOf(model);
  const view = mountView(el, client, { openPlace: pagePlaces(el) });
  const follow = (): void => {
    el.classList.toggle(LIVE_CLASS, client.connection.kind !== 'disconnected');
  };
  const unsubscribe = client.subscribe(follow);
  follow();
  return () => {
    unsubscribe();
    view.dispose();
  };
}

export default { initialize, render };
