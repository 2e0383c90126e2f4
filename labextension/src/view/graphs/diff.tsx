import { JSX } from 'preact';
import { useEnv } from '../env';
import { Lines } from '../lines';

const CLASSES: Partial<Record<string, string>> = {
  '+': 'xn-added',
  '-': 'xn-removed',
  '@': 'xn-note'
};

/** The lines of a unified diff. */
export function DiffText({ lines }: { lines: readonly string[] }): JSX.Element {
  const { t } = useEnv();
  return lines.length ? (
    <Lines
      label={t('Difference of the HLO')}
      count={lines.length}
      line={index => lines[index]}
      lineClass={index => CLASSES[lines[index].charAt(0)] ?? ''}
    />
  ) : (
    <p class="xn-note">{t('Both have the same HLO.')}</p>
  );
}
