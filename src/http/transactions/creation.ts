import type { FastifyReply, FastifyRequest } from 'fastify';
import { StoreUnavailable } from '../../platform/faults.js';
import type { CreationEndpoint, CreationName } from '../../transactions/creation.js';
import type { NewTransaction, Transaction } from '../../transactions/transaction.js';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors, storeRefusal } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { REQUEST_HEADERS } from '../openapi/headers.js';
import type { RequestHeader, RouteErrors } from '../openapi/route-description.js';
import { writeCondition } from '../requests/preconditions.js';
import { clientOf } from '../requests/request-limit-hook.js';

const KEY = /^[\x21-\x7e]{1,64}$/;
/** A string of structured fields (RFC 8941 3.3.3), as the IETF draft of the header wants it. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/;
const ESCAPED = /\\(["\\])/g;

/** `onRequest` of a create: a key that cannot be one is refused before the body is read. */
export function refuseInvalidKey(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  done(readCreationKey(headerOf(request)).state === 'invalid' ? publicErrors.invalidCreationKey() : undefined);
}

/**
 * Creates all or none, with or without a key of the client's (rules T5, T7, T9 and T10). `send` answers what was created, now or by the first
 * request with this key.
 */
export function create(
  transactions: Transactions,
  request: FastifyRequest,
  reply: FastifyReply,
  endpoint: CreationEndpoint,
  wanted: readonly NewTransaction[],
  send: (created: readonly Transaction[]) => void,
): void {
  const once = creationNameOf(request, endpoint);
  const condition = writeCondition(request.headers);
  const creating = transactions.create(wanted, { once, condition, client: clientOf(request) });
  answerWith(reply, once ? creating.catch(adviseRepeat) : creating, (result) => {
    switch (result.state) {
      case 'mismatch':
        throw publicErrors.creationMismatch();
      case 'precondition failed':
        throw publicErrors.preconditionFailed('list');
      case 'replayed':
        reply.header('idempotent-replayed', 'true');
    }
    reply.code(201);
    send(result.transactions);
  });
}

/** The key of a create and whose it is; undefined if none was sent. */
function creationNameOf(request: FastifyRequest, endpoint: CreationEndpoint): CreationName | undefined {
  const header = readCreationKey(headerOf(request));
  return header.state === 'present' ? { client: request.caller?.client ?? '', endpoint, key: header.key } : undefined;
}

type CreationKeyHeader = { state: 'absent' } | { state: 'invalid' } | { state: 'present'; key: string };

/**
 * The client's own key (rule T9), as it was sent; `"key"` is the same key as `key`. An empty key is invalid, because the
 * client relies on it. So is a key that is sent twice: Node joins the two with ", ".
 */
function readCreationKey(header: string | undefined): CreationKeyHeader {
  if (header === undefined) return { state: 'absent' };
  const value = header.trim();
  const [, quoted] = QUOTED.exec(value) ?? [];
  const key = quoted === undefined ? value : quoted.replace(ESCAPED, '$1');
  const isUnclosed = quoted === undefined && value.startsWith('"');
  return KEY.test(key) && !isUnclosed ? { state: 'present', key } : { state: 'invalid' };
}

function headerOf(request: FastifyRequest): string | undefined {
  return request.headers['idempotency-key'] as string | undefined;
}

/** With a key a request whose outcome is not known can simply be repeated. */
function adviseRepeat(fault: unknown): never {
  throw fault instanceof StoreUnavailable ? storeRefusal(fault, 'create once') : fault;
}

export const WITH_A_KEY =
  'With an `Idempotency-Key` the request may be repeated: nothing is created twice, and a repeat gets the first result as it was, with `Idempotent-Replayed: true`, also when something was changed or deleted since. It need not meet its preconditions again. Without a key, look in the list before you repeat a request whose outcome is not known.';
export const CONDITIONS = 'Preconditions are those on the list of all transactions, and are checked just before.';

const CREATION_KEY = {
  name: 'Idempotency-Key',
  text: 'A key of your own: one for each create, the same for every repeat. 1 to 64 visible ASCII characters, with or without quotes; sent twice or empty it is invalid. It belongs to the client that sends it and to the endpoint, and is kept for `IDEMPOTENCY_TTL_SECONDS`.',
  required: false,
  schema: { type: 'string' },
} as const satisfies RequestHeader;

export const CREATION_HEADERS: readonly RequestHeader[] = [
  CREATION_KEY,
  REQUEST_HEADERS.ifMatch,
  REQUEST_HEADERS.ifNoneMatch,
];

/** Added after the errors of the body. */
export const CREATION_ERRORS: RouteErrors = [
  'invalidCreationKey',
  'creationMismatch',
  'storeUnavailableWithKey',
  'storeOutcomeUnknownWithKey',
  { preconditionFailed: publicErrors.preconditionFailed('list') },
];
