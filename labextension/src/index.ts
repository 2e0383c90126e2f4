import { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { cellGraphsPlugin } from './lab/cellGraphs';
import { commandsPlugin } from './lab/commands';
import { hazardsPlugin } from './lab/hazards';
import { jumpPlugin } from './lab/jump';
import { kernelsPlugin } from './lab/kernels';
import { panelPlugin } from './lab/panel';
import { preferencesPlugin } from './lab/preferences';
import { statusPlugin } from './lab/status';
import { watchPlugin } from './lab/watch';
import { loadPlugin } from './load';

/** One plugin per capability, so that each can be disabled by itself. */
const plugins: JupyterFrontEndPlugin<unknown>[] = [
  preferencesPlugin,
  kernelsPlugin,
  watchPlugin,
  jumpPlugin,
  panelPlugin,
  loadPlugin,
  commandsPlugin,
  cellGraphsPlugin,
  hazardsPlugin,
  statusPlugin
];

export default plugins;
