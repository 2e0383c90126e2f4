import { Settings } from '../../protocol/messages';

/** A setting's values as texts: `true` and `false` for a boolean. */
type Values<K extends keyof Settings> = `${Settings[K]}`;

interface SettingText<K extends keyof Settings> {
  label: string;
  help: string;
  /** Each value and what it means. */
  values: Record<Values<K>, { label: string; help: string }>;
}

const ON_OFF = (on: string, off: string) => ({
  true: { label: 'on', help: on },
  false: { label: 'off', help: off }
});

/** Typed so that a new setting, or a new value of one, breaks the build until it is explained here. */
export const SETTINGS: { [K in keyof Settings]: SettingText<K> } = {
  warm_up: {
    label: 'Warm-up',
    help: 'How a graph gets its executable before its first run.',
    values: {
      compile: {
        label: 'compile',
        help: 'only compile: nothing executes, nothing is donated'
      },
      execute: {
        label: 'execute',
        help: 'compile, then run once through a step barrier, which may donate'
      },
      off: { label: 'off', help: 'compile at the first run' }
    }
  },
  freeze: {
    label: 'Freeze',
    help: 'What a compile is from now on.',
    values: {
      off: { label: 'off', help: 'nothing special' },
      warn: { label: 'warn', help: 'a warning that names the cause' },
      error: { label: 'error', help: 'an error that names the cause' }
    }
  },
  guard: {
    label: 'Guard',
    help: 'Protect saved buffers from donations.',
    values: ON_OFF(
      'a saved buffer is copied before a step barrier could donate it',
      'donations may hit saved buffers, as without this extension'
    )
  },
  saved_buffers: {
    label: 'Saved buffers',
    help: 'What a graph keeps for later runs.',
    values: {
      share: {
        label: 'share',
        help: 'your tensor’s own buffer: no memory more'
      },
      copy: {
        label: 'copy',
        help: 'a private copy: nothing you do can reach it'
      }
    }
  },
  on_donated: {
    label: 'On donated',
    help: 'What a run does that finds its saved buffer dead.',
    values: {
      recover: { label: 'recover', help: 'trace anew and go on' },
      raise: {
        label: 'raise',
        help: 'an error that names the variable and the culprit'
      }
    }
  },
  watch_donations: {
    label: 'Watch donations',
    help: 'At each step barrier, wait for the device and tell which buffers were donated to which tensors.',
    values: ON_OFF(
      'slow, because steps no longer overlap: for finding out, not for training',
      'donations that hit a graph are told all the same'
    )
  },
  watch_reads: {
    label: 'Watch reads',
    help: 'Tell which reads of pending tensors force XLA to execute.',
    values: ON_OFF('each such read becomes an event', 'reads are not looked at')
  }
};

export const SETTING_NAMES = Object.keys(SETTINGS) as (keyof Settings)[];

/** The value that a text of `values` stands for. */
export function settingValue(text: string): boolean | string {
  return text === 'true' ? true : text === 'false' ? false : text;
}
