import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { KernelLink } from './kernelLink';
import { IPreferences } from './preferences';
import { IKernels } from './tokens';

/** Call `begin` for each kernel, now and later, and what it returned when the kernel is left. */
export function withEachLink(
  kernels: IKernels,
  begin: (link: KernelLink) => () => void
): void {
  const ends = new Map<KernelLink, () => void>();
  const follow = (): void => {
    const links = new Set(kernels.links);
    for (const [link, end] of ends) {
      if (!links.has(link)) {
        ends.delete(link);
        end();
      }
    }
    for (const link of links) {
      if (!ends.has(link)) {
        ends.set(link, begin(link));
      }
    }
  };
  kernels.linksChanged.connect(follow);
  follow();
}

/**
 * Looks at the kernels for the status bar and the notifications, also while the panel is closed.
 *
 * A kernel tells nothing while nobody looks. The user can switch this off, and a hidden page does not look.
 */
export const watchPlugin: JupyterFrontEndPlugin<void> = {
  id: 'xla-notebook:watch',
  description: 'Follows the kernels while the panel is closed.',
  autoStart: true,
  requires: [IKernels, IPreferences],
  activate: (
    _: JupyterFrontEnd,
    kernels: IKernels,
    preferences: IPreferences
  ): void => {
    withEachLink(kernels, ({ client }) => {
      const viewer = client.addViewer();
      const update = (): void => {
        viewer.setVisible(
          preferences.values.watch && document.visibilityState === 'visible'
        );
      };
      document.addEventListener('visibilitychange', update);
      preferences.changed.connect(update);
      update();
      return () => {
        document.removeEventListener('visibilitychange', update);
        preferences.changed.disconnect(update);
        viewer.dispose();
      };
    });
  }
};
