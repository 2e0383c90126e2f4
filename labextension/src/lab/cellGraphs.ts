import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICodeCellModel } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Cell } from '../protocol/messages';
import { graphsOfCell } from '../view/graphs/facts';
import { Commands } from './commandIds';
import { xlaIcon } from './icon';
import { IInspector, IKernels } from './tokens';
import { withEachLink } from './watch';

/** Adds the way from a cell to its graphs: a command, and a button in the toolbar of the cell. */
export const cellGraphsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:cell-graphs',
  description: 'Shows the graphs that stem from a cell.',
  autoStart: true,
  requires: [INotebookTracker, IKernels, IInspector],
  optional: [ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    notebooks: INotebookTracker,
    kernels: IKernels,
    inspector: IInspector,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('xla_notebook');
    // The active cell of the notebook in front, as the kernel calls it.
    const cell = (): Cell | null => {
      const model = notebooks.activeCell?.model;
      return model && kernels.front?.document === notebooks.currentWidget
        ? {
            cell_id: model.id,
            execution_count: (model as ICodeCellModel).executionCount ?? 0
          }
        : null;
    };
    const count = (): number => {
      const at = cell();
      const graphs = kernels.front?.link?.client.model.graphs;
      return at && graphs ? graphsOfCell(graphs.values(), at).length : 0;
    };

    commands.addCommand(Commands.showCellGraphs, {
      label: trans.__('Show XLA Graphs of This Cell'),
      caption: () =>
        trans._n(
          'Show the XLA graph of this cell',
          'Show the %1 XLA graphs of this cell',
          count()
        ),
      icon: xlaIcon,
      isEnabled: () => count() > 0,
      isVisible: args => !args.toolbar || count() > 0,
      execute: () => {
        const at = cell();
        if (at) {
          inspector.revealGraphsOf(at);
        }
      }
    });

    let shown = 0;
    const tell = (): void => {
      if (count() !== shown) {
        shown = count();
        commands.notifyCommandChanged(Commands.showCellGraphs);
      }
    };
    notebooks.activeCellChanged.connect(tell);
    kernels.frontChanged.connect(tell);
    withEachLink(kernels, link => link.client.subscribe(tell));
  }
};
