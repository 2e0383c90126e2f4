import { JSX } from 'preact';
import { Details } from '../../protocol/messages';
import { useEnv } from '../env';

const STEP = 22;
const WIDTH = 72;

/** Lines from inputs to the outputs that are their new values: solid where the memory is reused, too. */
export function AliasMap({ answer }: { answer: Details }): JSX.Element {
  const { t } = useEnv();
  const { aliases, inputs } = answer;
  if (!aliases.length) {
    return (
      <p class="xn-note">{t('None: the graph updates nothing in place.')}</p>
    );
  }
  const left = [...new Set(aliases.map(alias => alias.input))].sort(
    (a, b) => a - b
  );
  const right = [...new Set(aliases.map(alias => alias.output))].sort(
    (a, b) => a - b
  );
  const height = Math.max(left.length, right.length) * STEP;
  const middle = (index: number): number => index * STEP + STEP / 2;
  const nameOf = (index: number): string =>
    index in inputs ? inputs[index].name : t('input %1', index);
  const sentences = aliases.map(alias =>
    t(
      alias.reused
        ? 'output %1 is the new value of %2, in its memory'
        : 'output %1 is the new value of %2, in other memory',
      alias.output,
      nameOf(alias.input)
    )
  );
  return (
    <div class="xn-aliases" role="img" aria-label={sentences.join('; ')}>
      <ol>
        {left.map(index => (
          <li key={index} title={nameOf(index)}>
            {nameOf(index)}
          </li>
        ))}
      </ol>
      <svg width={WIDTH} height={height} aria-hidden="true">
        {aliases.map((alias, index) => (
          <line
            key={index}
            class={alias.reused ? 'xn-alias xn-reused' : 'xn-alias'}
            x1={4}
            y1={middle(left.indexOf(alias.input))}
            x2={WIDTH - 4}
            y2={middle(right.indexOf(alias.output))}
          >
            <title>{sentences[index]}</title>
          </line>
        ))}
      </svg>
      <ol>
        {right.map(index => (
          <li key={index}>{t('output %1', index)}</li>
        ))}
      </ol>
    </div>
  );
}
