import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Clipboard,
  Dialog,
  ICommandPalette,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';

import { Settings } from '../protocol/messages';
import { Client } from '../store/client';
import { errorText } from '../view/env';
import { bytesText } from '../view/format';
import { download } from '../view/settings/panel';
import { Commands } from './commandIds';
import { IKernels } from './tokens';

const NOTICE_MS = 4_000;

/** The client of the kernel in front, if it can be asked something. */
function clientInFront(kernels: IKernels): Client | null {
  const link = kernels.front?.link;
  return link?.state === 'open' ? link.client : null;
}

/** What all commands that ask the kernel have in common. */
function asking(
  kernels: IKernels,
  act: (client: Client) => Promise<string | null>
): Pick<CommandRegistry.ICommandOptions, 'isEnabled' | 'execute'> {
  return {
    isEnabled: () => clientInFront(kernels) !== null,
    execute: async () => {
      const client = clientInFront(kernels);
      if (!client) {
        return;
      }
      try {
        const done = await act(client);
        if (done !== null) {
          Notification.success(done, { autoClose: NOTICE_MS });
        }
      } catch (error) {
        Notification.error(errorText(error));
      }
    }
  };
}

/** A command that switches a setting between `on` and `off`. */
function toggling(
  kernels: IKernels,
  name: keyof Settings,
  on: string,
  off: string
): Partial<CommandRegistry.ICommandOptions> {
  const value = (): Settings[keyof Settings] | undefined =>
    clientInFront(kernels)?.model.settings?.[name];
  return {
    isToggleable: true,
    isToggled: () => value() !== undefined && value() !== off,
    ...asking(kernels, async client => {
      const next = value() === off ? on : off;
      await client.request<'set_setting'>({
        type: 'set_setting',
        name,
        value: next
      });
      return null;
    })
  };
}

async function clear(
  client: Client,
  trans: TranslationBundle
): Promise<string | null> {
  const answer = await showDialog({
    title: trans.__('Drop all cached graphs?'),
    body: trans.__(
      'Graphs and the buffers that they keep are dropped. The next call of each function compiles it again.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Keep Them') }),
      Dialog.warnButton({ label: trans.__('Drop Them') })
    ]
  });
  if (!answer.button.accept) {
    return null;
  }
  const { graphs, nbytes } = await client.request<'clear'>({ type: 'clear' });
  return trans._n(
    '%1 graph dropped, %2 came free.',
    '%1 graphs dropped, %2 came free.',
    graphs,
    bytesText(nbytes)
  );
}

async function exportSession(
  client: Client,
  trans: TranslationBundle
): Promise<string> {
  const { filename, text } = await client.request<'get_export'>({
    type: 'get_export'
  });
  download(filename, text);
  return trans.__('Saved as %1.', filename);
}

async function copyReport(
  client: Client,
  trans: TranslationBundle
): Promise<string> {
  const { text } = await client.request<'get_report'>({ type: 'get_report' });
  Clipboard.copyToSystem(text);
  return trans.__('The report is in the clipboard.');
}

/** Adds the commands that ask the kernel in front, and puts all commands into the palette. */
export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:commands',
  description: 'Commands for the settings and the session of the kernel.',
  autoStart: true,
  requires: [IKernels],
  optional: [ICommandPalette, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    kernels: IKernels,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('xla_notebook');

    commands.addCommand(Commands.warmUp, {
      label: trans.__('Warm Up Graphs Before Their First Run'),
      ...toggling(kernels, 'warm_up', 'compile', 'off')
    } as CommandRegistry.ICommandOptions);
    commands.addCommand(Commands.freeze, {
      label: trans.__('Freeze: Compiles Are Errors'),
      ...toggling(kernels, 'freeze', 'error', 'off')
    } as CommandRegistry.ICommandOptions);
    commands.addCommand(Commands.clear, {
      label: trans.__('Drop All Cached Graphs…'),
      ...asking(kernels, client => clear(client, trans))
    });
    commands.addCommand(Commands.exportSession, {
      label: trans.__('Export XLA Session'),
      ...asking(kernels, client => exportSession(client, trans))
    });
    commands.addCommand(Commands.copyReport, {
      label: trans.__('Copy XLA Report'),
      ...asking(kernels, client => copyReport(client, trans))
    });

    kernels.frontChanged.connect(() => {
      commands.notifyCommandChanged();
    });
    const category = trans.__('XLA Notebook');
    Object.values(Commands).forEach(command => {
      palette?.addItem({ command, category });
    });
  }
};
