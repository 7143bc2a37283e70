import type { Call } from '../http/call.js';
import { type Done, type GivenUp, type Repeater, repeat } from '../http/repeat.js';
import type { Answer, Lost } from '../http/transport.js';
import type { PaymentAnswer } from './payment-answers.js';
import type { AskedPayment } from './references.js';

type Again = Extract<PaymentAnswer<never>, { state: 'again' }>;

/** The attempts of one call that may move money. */
interface Attempts<Asked extends AskedPayment, Ended> {
  readonly asked: Asked;
  readonly send: () => Promise<Answer | Lost>;
  readonly read: (result: Answer | Lost, named: Asked, attempts: number) => Ended | Again;
  /** Adds the keys in an answer to what is known of the names. */
  readonly withKeysOf: (answer: Answer, named: Asked) => Asked;
  /** True if an earlier call may have sent the same. */
  readonly arrivedBefore?: boolean;
}

export type AttemptsEnd<Asked, Ended> = (Done<Ended & { readonly attempts: number }> | GivenUp) & {
  readonly named: Asked;
  /** An attempt may have arrived without an answer, so an error never says that nothing was done. */
  readonly mayHaveArrived: boolean;
};

/** Sends the same until an answer ends the call. */
export async function repeatAttempts<Asked extends AskedPayment, Ended extends { readonly state: string }>(
  repeater: Repeater,
  call: Call,
  { asked, send, read, withKeysOf, arrivedBefore = false }: Attempts<Asked, Ended>,
): Promise<AttemptsEnd<Asked, Ended>> {
  let mayHaveArrived = arrivedBefore;
  let named = asked;
  const end = await repeat<Ended & { readonly attempts: number }>(repeater, call, async (attempts) => {
    const result = await send();
    const answer = read(result, named, attempts);
    if (result.state === 'answered') named = withKeysOf(result, named);
    if (isFinal(answer)) return { state: 'done', value: { ...answer, attempts } };
    mayHaveArrived ||= answer.mayHaveArrived;
    return answer;
  });
  return { ...end, named, mayHaveArrived };
}

function isFinal<Ended extends { readonly state: string }>(answer: Ended | Again): answer is Ended {
  return answer.state !== 'again';
}
