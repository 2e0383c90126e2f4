import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Graph } from '../protocol/messages';
import { Commands } from './commandIds';
import { graphsOfCell } from './facts';
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
    const graphs = (): Graph[] => {
      const { front } = kernels;
      const cell = notebooks.activeCell;
      return front?.link && cell && front.document === notebooks.currentWidget
        ? graphsOfCell(front.link.client.model.graphs.values(), cell.model.id)
        : [];
    };
    const count = (): number => graphs().length;

    commands.addCommand(Commands.showCellGraphs, {
      label: args =>
        args.toolbar
          ? String(count())
          : trans.__('Show XLA Graphs of This Cell'),
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
        const newest = graphs().pop();
        if (newest) {
          inspector.reveal('graphs', newest.graph_id);
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
