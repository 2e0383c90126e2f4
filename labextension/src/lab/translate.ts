import type { TranslationBundle } from '@jupyterlab/translation';

import { Translate } from '../view/env';
import { countText } from '../view/format';

/** JupyterLab's translations for the view, which writes counts with separators. */
export function translateWith(trans: TranslationBundle): Translate {
  return Object.assign((...args: Parameters<Translate>) => trans.__(...args), {
    plural: (...[one, many, count, ...args]: Parameters<Translate['plural']>) =>
      trans
        ._n(one, many, count, ...args)
        .replace(String(count), countText(count))
  });
}
