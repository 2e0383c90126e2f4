import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { Cell as CellWidget, ICodeCellModel } from '@jupyterlab/cells';
import { IConsoleTracker } from '@jupyterlab/console';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';

import { Cell, Place } from '../protocol/messages';
import { answerPlaces } from '../view/pagePlaces';
import { Document, IJump } from './tokens';

const NOTICE_MS = 6_000;

class Jump implements IJump {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly documents: () => Document[],
    private readonly trans: TranslationBundle
  ) {}

  open(kernelId: string | null, place: Place | null, at: Cell | null): void {
    const cell = place?.cell ?? at;
    const text = place?.text ?? '';
    if (!cell) {
      this.tell(
        this.trans.__('%1 is not in a cell of a notebook.', text || '…')
      );
      return;
    }
    for (const document of this.documents()) {
      if (kernelId !== null && kernelId !== kernelIdOf(document)) {
        continue;
      }
      const found = findCell(document, cell);
      if (found) {
        void this.show(document, found, place?.line ?? null);
        return;
      }
    }
    this.tell(
      this.trans.__(
        'Cell %1 is gone: it was deleted, or its notebook is closed.',
        cell.execution_count
      )
    );
  }

  private async show(
    document: Document,
    cell: CellWidget,
    line: number | null
  ): Promise<void> {
    this.app.shell.activateById(document.id);
    if (document instanceof NotebookPanel) {
      const notebook = document.content;
      const index = notebook.widgets.indexOf(cell);
      notebook.activeCellIndex = index;
      await notebook.scrollToItem(index, 'smart');
    } else {
      cell.node.scrollIntoView({ block: 'nearest' });
    }
    await cell.ready;
    cell.inputHidden = false;
    if (line !== null && cell.editor) {
      selectLine(cell.editor, line);
    }
  }

  private tell(text: string): void {
    Notification.info(text, { autoClose: NOTICE_MS });
  }
}

function kernelIdOf(document: Document): string | null {
  return document.sessionContext.session?.kernel?.id ?? null;
}

/** The cell with this id, or without one that which ran at this count. */
function findCell(document: Document, cell: Cell): CellWidget | undefined {
  const widgets =
    document instanceof NotebookPanel
      ? document.content.widgets
      : [...document.console.cells];
  return widgets.find(({ model }) =>
    cell.cell_id === null
      ? (model as ICodeCellModel).executionCount === cell.execution_count
      : model.id === cell.cell_id
  );
}

/** Select a line, counted from 1; the last one if the cell has become shorter. */
function selectLine(
  editor: NonNullable<CellWidget['editor']>,
  number: number
): void {
  const line = Math.min(number, editor.lineCount) - 1;
  const column = editor.getLine(line)?.length ?? 0;
  editor.focus();
  editor.setSelection({ start: { line, column: 0 }, end: { line, column } });
  editor.revealPosition({ line, column: 0 });
}

/** Provides the way from a graph or an event to its cell. */
export const jumpPlugin: JupyterFrontEndPlugin<IJump> = {
  id: 'xla-notebook:jump',
  description: 'Goes to the cell and line that caused a graph or an event.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [IConsoleTracker, ITranslator],
  provides: IJump,
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    consoles: IConsoleTracker | null,
    translator: ITranslator | null
  ): IJump => {
    const documents = (): Document[] => {
      const all: Document[] = [];
      for (const tracker of [notebooks, ...(consoles ? [consoles] : [])]) {
        tracker.forEach((document: Document) => {
          all.push(document);
        });
      }
      return all;
    };
    const trans = (translator ?? nullTranslator).load('xla_notebook');
    const jump = new Jump(app, documents, trans);
    answerPlaces(document, (from, place, cell) => {
      // Without one it is an output that has a tab of its own.
      const around = documents().find(({ node }) => node.contains(from));
      jump.open(around ? kernelIdOf(around) : null, place, cell);
    });
    return jump;
  }
};
