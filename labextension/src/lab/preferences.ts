import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { nextFrame, Schedule } from '../store/frames';
import { PanelName, PANELS } from '../view/viewState';

/** The user's settings (`labextension/schema/settings.json`), with what holds where nothing is set. */
const DEFAULTS = {
  panels: PANELS as readonly PanelName[],
  refreshMs: 0,
  watch: true,
  notifyHazards: true,
  openOnHazard: false,
  savedMiBWarning: 0,
  graphsWarning: 0
};

export type PreferenceValues = typeof DEFAULTS;

/** How the user wants this extension to be. */
export interface IPreferences {
  readonly values: Readonly<PreferenceValues>;
  readonly changed: ISignal<IPreferences, void>;
  /** When to draw what has changed. */
  readonly schedule: Schedule;
}

export const IPreferences = new Token<IPreferences>(
  'xla-notebook:IPreferences',
  'The settings of the XLA inspector in JupyterLab.'
);

export class Preferences implements IPreferences {
  values: Readonly<PreferenceValues> = DEFAULTS;
  readonly changed = new Signal<this, void>(this);

  readonly schedule: Schedule = draw => {
    const { refreshMs } = this.values;
    if (refreshMs > 0) {
      setTimeout(draw, refreshMs);
    } else {
      nextFrame(draw);
    }
  };

  take(settings: Pick<ISettingRegistry.ISettings, 'composite'>): void {
    // The registry checks the values against the schema.
    this.values = {
      ...DEFAULTS,
      ...(settings.composite as Partial<PreferenceValues>)
    };
    this.changed.emit();
  }
}

const PLUGIN_ID = 'xla-notebook:settings';

/** Provides the settings; without a registry of settings the defaults hold. */
export const preferencesPlugin: JupyterFrontEndPlugin<IPreferences> = {
  id: PLUGIN_ID,
  description: 'The settings, menu entries and shortcuts of the XLA inspector.',
  autoStart: true,
  optional: [ISettingRegistry],
  provides: IPreferences,
  activate: (
    _: JupyterFrontEnd,
    registry: ISettingRegistry | null
  ): IPreferences => {
    const preferences = new Preferences();
    registry?.load(PLUGIN_ID).then(
      settings => {
        preferences.take(settings);
        settings.changed.connect(() => {
          preferences.take(settings);
        });
      },
      (error: unknown) => {
        console.error('The settings of xla-notebook were not loaded.', error);
      }
    );
    return preferences;
  }
};
