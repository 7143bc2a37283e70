import { PublicError, publicErrors } from '../http/errors/public-errors.js';
import { named, referenceIn, refuseOtherKey } from '../http/payments/reference-request.js';
import { readKeyHeader } from '../payments/values/idempotency-key.js';
import { createComputeKey, type NamedPayment } from '../payments/values/reference.js';
import type { FakeAnswer, FakeRequest } from './fake-exchange.js';
import { answerError } from './fake-requests.js';

/** The same in every fake, so that keys may stand in a test's expectations. */
const DEPLOYMENT_ID = 'idempay/testing';
export const computeKey = createComputeKey(DEPLOYMENT_ID);

/** By a reference or a header, as the service reads them; undefined for a header that holds no key. Throws for a request that names nothing. */
export function namedPayment(request: FakeRequest, by: 'client' | 'operator' | 'question'): NamedPayment | undefined {
  const header = request.headers['idempotency-key'];
  const asked = referenceIn({ query: request.query, caller: undefined }, by !== 'client');
  if (asked) {
    const payment = named(asked, computeKey);
    if (asked.attempt !== undefined || by !== 'question') refuseOtherKey(header, payment.key);
    return payment;
  }
  const read = readKeyHeader(header);
  if (read.state === 'missing') throw publicErrors.missingIdempotencyKey();
  return read.state === 'present' ? { key: read.key } : undefined;
}

/** Every answer about a reference names its key, errors too. */
export function answerAbout(payment: NamedPayment | undefined, answer: () => FakeAnswer): FakeAnswer {
  if (!payment?.reference) return answer();
  const { status, headers, body } = answerOrError(answer);
  return { status, headers: { 'idempotency-key': payment.key, ...headers }, body };
}

function answerOrError(answer: () => FakeAnswer): FakeAnswer {
  try {
    return answer();
  } catch (fault) {
    if (fault instanceof PublicError) return answerError(fault);
    throw fault;
  }
}
