import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { isClient } from '../../access/client-name.js';
import { isKeyHeaderMissing, readKeyHeader } from '../../payments/values/idempotency-key.js';
import {
  type ComputeKey,
  isReference,
  LAST_ATTEMPT,
  lostNumberIn,
  type NamedPayment,
  type Reference,
  readAttempt,
} from '../../payments/values/reference.js';
import type { PublicError } from '../errors/public-error.js';
import { publicErrors } from '../errors/public-errors.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';

const Text = Type.Optional(Type.String());

/** The query of a request that may name a reference. */
export const ReferenceQuery = Type.Object({ reference: Text, attempt: Text });
/** An operator names the client whose reference it is. */
export const OperatedReferenceQuery = Type.Object({ reference: Text, attempt: Text, client: Text });

export const REFERENCE_PARAMETERS = Object.keys(ReferenceQuery.properties);
export const OPERATED_REFERENCE_PARAMETERS = Object.keys(OperatedReferenceQuery.properties);

/** A reference as the query names it. */
export interface AskedReference {
  readonly text: string;
  readonly client: string | undefined;
  /** Where none is named, a payment is of the first one, and a question about the newest. */
  readonly attempt: number | undefined;
}

export type NamedReference = NamedPayment & { readonly reference: Reference };

/**
 * What the query says of a reference (rule P18); undefined where it names none. Throws the 400 that says what is wrong: a reference that
 * was meant, and cannot be read, must never become a payment with another key.
 */
export function referenceIn(
  request: Pick<FastifyRequest, 'query' | 'caller'>,
  takesClient = false,
): AskedReference | undefined {
  const query = request.query as Readonly<Record<string, unknown>>;
  const { reference, attempt, client } = query;
  if (reference === undefined) {
    const alone = ['attempt', ...(takesClient ? ['client'] : [])].find((name) => query[name] !== undefined);
    if (alone === undefined) return undefined;
    throw publicErrors.withoutReference(alone);
  }
  if (typeof reference !== 'string' || !isReference(reference)) throw refusalOf(reference);
  // A misspelt attempt would be the first one.
  refuseUnknownParameters(query, takesClient ? OPERATED_REFERENCE_PARAMETERS : REFERENCE_PARAMETERS);
  return {
    text: reference,
    attempt: attempt === undefined ? undefined : attemptOf(attempt),
    client: clientOf(request, takesClient ? client : undefined),
  };
}

export function refusalOf(reference: unknown): PublicError {
  const lost = typeof reference === 'string' ? lostNumberIn(reference) : undefined;
  return lost === undefined ? publicErrors.invalidReference() : publicErrors.referenceWithoutNumber(lost);
}

/** The key of a reference. Who may name it sees it as the client does whose it is. */
export function named(asked: AskedReference, computeKey: ComputeKey): NamedReference {
  const { text, client, attempt = 1 } = asked;
  const reference = { text, client, attempt };
  return { key: computeKey(reference), client, reference };
}

/** Whether a question is about one attempt, and not about the newest. */
export function isAttemptNamed({ query }: FastifyRequest): boolean {
  return (query as Readonly<Record<string, unknown>>).attempt !== undefined;
}

/** A header that is sent with a reference must name the same payment. */
export function refuseOtherKey(header: string | undefined, key: string): void {
  if (isKeyHeaderMissing(header)) return;
  const read = readKeyHeader(header);
  if (read.state !== 'present' || read.key !== key) throw publicErrors.keyOfAnotherReference();
}

/** Throws the 400 that says what an attempt is. */
export function attemptOf(value: unknown): number {
  const attempt = typeof value === 'string' ? readAttempt(value) : undefined;
  if (attempt !== undefined) return attempt;
  throw publicErrors.invalidRequest(`'attempt' must be a whole number from 1 to ${LAST_ATTEMPT}, sent once.`);
}

export function clientMissing(): PublicError {
  return publicErrors.invalidRequest("'client' must say whose reference it is, such as 'key:shop'.");
}

/** A client has references of its own. An operator that pays nothing itself has none, and names a client. */
function clientOf({ caller }: Pick<FastifyRequest, 'caller'>, named: unknown): string | undefined {
  if (named === undefined) {
    if (caller && !caller.scopes.has('payments:write') && caller.scopes.has('operations')) {
      throw clientMissing();
    }
    return caller?.client;
  }
  if (typeof named !== 'string' || named === '' || !caller?.scopes.has('operations')) {
    throw publicErrors.clientForOperators();
  }
  // Before anything is computed or stored: a name that no client can have would make a payment that nobody pays.
  if (!isClient(named)) throw publicErrors.unknownClient();
  return named;
}
