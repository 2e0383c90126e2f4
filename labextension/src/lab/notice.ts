import { TranslationBundle } from '@jupyterlab/translation';

import { never } from '../protocol/decode';
import { Front } from './tokens';

/** What is to be said in place of the view, or above what was seen last. */
export interface Notice {
  text: string;
  /** Whether loading the extension helps. */
  canLoad: boolean;
}

/** What keeps the kernel in front from being shown; null if nothing does. */
export function noticeOf(
  front: Front | null,
  trans: TranslationBundle
): Notice | null {
  if (!front) {
    return say(trans.__('Open a notebook or a console to see what XLA does.'));
  }
  const { link } = front;
  if (!link) {
    return say(trans.__('There is no kernel.'));
  }
  switch (link.state) {
    case 'open':
      return null;
    case 'connecting':
      return say(
        trans.__(
          'Connecting to the kernel. If a cell runs, this may take until it ends.'
        )
      );
    case 'restarting':
      return say(trans.__('The kernel restarts.'));
    case 'dead':
      return say(trans.__('The kernel has ended. Restart it to go on.'));
    case 'absent':
      return {
        text: trans.__(
          'The extension xla_notebook is not loaded in this kernel.'
        ),
        canLoad: true
      };
    default:
      return never(link.state);
  }
}

function say(text: string): Notice {
  return { text, canLoad: false };
}
