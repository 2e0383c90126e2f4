import { JSX } from 'preact';
import { useEnv } from './env';

/** What was refused or went wrong, until dismissed. */
export function Failures(): JSX.Element {
  const { client, t } = useEnv();
  return (
    <div role="alert" class="xn-failures">
      {client.failures.map(failure => (
        <div key={failure.key} class="xn-failure">
          <span>{failure.text}</span>
          <button
            type="button"
            class="xn-button"
            onClick={() => client.dismiss(failure.key)}
          >
            {t('Dismiss')}
          </button>
        </div>
      ))}
    </div>
  );
}
