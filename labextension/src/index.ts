import { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { loadPlugin } from './load';

/** One plugin per capability, so that each can be disabled by itself. */
const plugins: JupyterFrontEndPlugin<void>[] = [loadPlugin];

export default plugins;
