import { never } from '../protocol/decode';
import { Connection } from '../store/connection';
import { Translate } from './env';
import { clockText } from './format';

/** The connection in a few words, and in a sentence. */
export function connectionText(
  connection: Connection,
  t: Translate
): { short: string; long: string } {
  switch (connection.kind) {
    case 'connecting':
      return {
        short: t('connecting'),
        long: t(
          'Waiting for the kernel. If a cell runs, this may take until it ends.'
        )
      };
    case 'live':
      return {
        short: t('live'),
        long: t('What is shown is what the kernel knows.')
      };
    case 'busy':
      return {
        short: t('busy: cell %1', connection.cell.execution_count),
        long: t(
          'Cell %1 runs; the view stays up to date.',
          connection.cell.execution_count
        )
      };
    case 'waiting':
      return {
        short: t('waiting for cell %1', connection.cell.execution_count),
        long: t.plural(
          '%1 request waits for the end of cell %2.',
          '%1 requests wait for the end of cell %2.',
          connection.count,
          connection.cell.execution_count
        )
      };
    case 'stale': {
      const since = clockText(connection.sinceMs).slice(0, 8);
      return {
        short: t('stale since %1', since),
        long: t('The kernel does not answer; this is the state of %1.', since)
      };
    }
    case 'disconnected':
      return {
        short: t('disconnected'),
        long: t('Not connected: %1.', connection.why)
      };
    default:
      return never(connection);
  }
}
