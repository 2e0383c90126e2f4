import { useEffect, useState } from 'preact/hooks';
import { AnswerTo, Ask, QuestionType } from '../store/requests';
import { errorText, useEnv } from './env';

export type Asked<T> =
  | { kind: 'waiting' }
  | { kind: 'answer'; value: T }
  | { kind: 'failed'; text: string };

/** The answer to `ask`, which is asked again when `key` changes. */
export function useAnswer<K extends QuestionType>(
  ask: Ask<K>,
  key: string | number
): Asked<AnswerTo<K>> {
  const { client } = useEnv();
  const [asked, setAsked] = useState<Asked<AnswerTo<K>>>({ kind: 'waiting' });
  useEffect(() => {
    let wanted = true;
    const take = (answer: Asked<AnswerTo<K>>): void => {
      if (wanted) {
        setAsked(answer);
      }
    };
    client.request<K>(ask).then(
      value => take({ kind: 'answer', value }),
      (error: unknown) => take({ kind: 'failed', text: errorText(error) })
    );
    return () => {
      wanted = false;
    };
  }, [client, key]);
  return asked;
}
