import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import {
  INotebookTracker,
  NotebookActions,
  NotebookPanel
} from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

const COMMAND_ID = 'xla-notebook:load-extension';
const LOAD_SOURCE = '%load_ext xla_notebook';

/**
 * Insert a cell that loads the extension above the active cell, and run it.
 *
 * The cell is real and stays in the notebook, so that the notebook also works
 * where this command does not exist.
 */
async function loadInNotebook(
  panel: NotebookPanel,
  translator: ITranslator
): Promise<void> {
  // A cell that runs before its kernel is connected is dropped silently.
  await panel.sessionContext.ready;
  NotebookActions.insertAbove(panel.content);
  const cell = panel.content.activeCell;
  if (!cell) {
    throw new Error('The notebook has no active cell after an insertion.');
  }
  cell.model.sharedModel.setSource(LOAD_SOURCE);
  await NotebookActions.run(
    panel.content,
    panel.sessionContext,
    undefined,
    translator
  );
}

/** The command "load the extension in this notebook". */
export const loadPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:load',
  description: 'Adds a command that loads xla_notebook in the active notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    maybeTranslator: ITranslator | null
  ): void => {
    const translator = maybeTranslator ?? nullTranslator;
    const trans = translator.load('xla_notebook');
    const activePanel = (): NotebookPanel | null =>
      tracker.currentWidget === app.shell.currentWidget
        ? tracker.currentWidget
        : null;

    app.commands.addCommand(COMMAND_ID, {
      label: trans.__('XLA Notebook: load the extension in this notebook'),
      caption: trans.__('Insert a cell with %1 and run it', LOAD_SOURCE),
      isEnabled: () => activePanel() !== null,
      execute: async () => {
        const panel = activePanel();
        if (panel) {
          await loadInNotebook(panel, translator);
        }
      }
    });
    tracker.currentChanged.connect(() => {
      app.commands.notifyCommandChanged(COMMAND_ID);
    });
    palette?.addItem({
      command: COMMAND_ID,
      category: trans.__('XLA Notebook')
    });
  }
};
