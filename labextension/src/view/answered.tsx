import { ComponentChildren, JSX } from 'preact';
import { AnswerTo, Ask, QuestionType } from '../store/requests';
import { useEnv } from './env';
import { useWaitNote } from './settings/control';
import { useAnswer } from './useAnswer';

/** Asks the kernel, and shows the answer, or why there is none (yet). */
export function Answered<K extends QuestionType>(props: {
  ask: Ask<K>;
  /** Asked again when this changes. */
  again: string | number;
  children: (answer: AnswerTo<K>) => ComponentChildren;
}): JSX.Element {
  const { t } = useEnv();
  const asked = useAnswer<K>(props.ask, props.again);
  const wait = useWaitNote(props.ask.type);
  if (asked.kind === 'waiting') {
    return <p class="xn-note">{wait || t('Asking the kernel…')}</p>;
  }
  if (asked.kind === 'failed') {
    return <p class="xn-failure">{asked.text}</p>;
  }
  return <>{props.children(asked.value)}</>;
}
