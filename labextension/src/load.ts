import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ConsolePanel } from '@jupyterlab/console';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Commands } from './lab/commandIds';
import { Document, IKernels } from './lab/tokens';

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

async function load(
  document: Document,
  translator: ITranslator
): Promise<void> {
  // A cell that runs before its kernel is connected is dropped silently.
  await document.sessionContext.ready;
  if (document instanceof ConsolePanel) {
    await document.console.inject(LOAD_SOURCE);
  } else {
    await loadInNotebook(document, translator);
  }
}

/** The command "load the extension in this notebook". */
export const loadPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:load',
  description:
    'Adds a command that loads xla_notebook in the notebook or console in front.',
  autoStart: true,
  requires: [IKernels],
  optional: [ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    kernels: IKernels,
    maybeTranslator: ITranslator | null
  ): void => {
    const translator = maybeTranslator ?? nullTranslator;
    const trans = translator.load('xla_notebook');

    commands.addCommand(Commands.load, {
      label: trans.__('Load the XLA Extension in This Notebook'),
      caption: trans.__('Insert a cell with %1 and run it', LOAD_SOURCE),
      isEnabled: () => kernels.front !== null,
      execute: async () => {
        const { front } = kernels;
        if (front) {
          await load(front.document, translator);
        }
      }
    });
  }
};
