import { NotFoundError, UnexpectedAnswerError } from '../errors.js';
import { detailsOf } from '../http/answers.js';
import type { CallOptions } from '../http/call.js';
import { jsonOf } from '../http/forms.js';
import { provenMessageOf } from '../http/proof.js';
import type { Requests } from '../http/requests.js';
import type { Answer } from '../http/transport.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { Payment } from '../representations.js';
import { lookUp } from './payment-records.js';
import {
  checkedAttempt,
  checkedReference,
  keyOfAnswer,
  type OperatedReference,
  REFERENCE_MEMBERS,
  referenceQuery,
} from './references.js';

const COMPLETED = /^Transaction ID: TXN\d+$/;
const ABSENT = 'There is no payment with this reference, or attempt.';

/** The record of the newest attempt at a reference, or of the one that is named. */
export async function statusOf(requests: Requests, asked: OperatedReference, options: CallOptions): Promise<Payment> {
  refuseUnknown(asked, 'option of status', REFERENCE_MEMBERS);
  const { reference, attempt, client } = asked;
  const query = referenceQuery(checkedReference(reference), checkedAttempt(attempt), client);
  const path = `/api/payment-status?${query}`;
  return requests.within(options, async (call) => {
    const key = await requests.sendWithin(call, { method: 'GET', path }, (answer) => keyIn(answer, reference));
    const found = await lookUp(requests, call, key, { reference, attempt });
    if (found.state === 'found') return found.payment;
    throw new NotFoundError(ABSENT, found.details);
  });
}

/** A payment under way has this answer too, and has no transaction id to show yet; the key leads to its record. */
function keyIn(answer: Answer, reference: string): string | undefined {
  const sentence = jsonOf(answer);
  const isCompleted = typeof sentence === 'string' && COMPLETED.test(sentence);
  if (!isCompleted && !(answer.status === 404 && provenMessageOf(answer) !== undefined)) return undefined;
  const key = keyOfAnswer(answer, { key: undefined, reference });
  if (key !== undefined) return key;
  throw new UnexpectedAnswerError(NO_KEY, detailsOf(answer));
}

const NO_KEY =
  'The answer does not name the key of the reference: something in between removed the header Idempotency-Key, or the query.';
