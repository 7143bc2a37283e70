import type { FastifyInstance } from 'fastify';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import type { Prefix, Selection } from '../../payments/ports/payment-history.js';
import { MOST_METADATA_VALUE, textProblem } from '../../payments/values/content.js';
import { mayBeListed } from '../../payments/values/reference.js';
import { momentAbove } from '../../payments/values/transaction-id.js';
import { isPrinted } from '../../platform/printed-text.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { always, linkToNextPage, NO_STORE, sometimes } from '../openapi/headers.js';
import type { ParameterDescription, RouteDescription } from '../openapi/route-description.js';
import { readableClient } from '../requests/access-check.js';
import { sendJson } from '../requests/json-answer.js';
import { type ParametersOf, type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { limitOf, pageAfter, refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { referenceRefusal } from './named-payment.js';
import { examplePayment, STATES } from './shown-payment.js';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 500;
export const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DAY_LENGTH = '2026-11-20'.length;
/** RFC 3339: a moment always says its offset. */
const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i;
const ID_PREFIX = /^TXN\d{0,40}$/i;
const TRANSACTION_ID = /^TXN\d{1,40}$/;
const KEY_PREFIX = /^[0-9a-f]{1,32}$/;

const Query = querySchema(
  'find',
  'reference',
  'content',
  'kind',
  'state',
  'pending',
  'processor',
  'from',
  'to',
  'limit',
  'cursor',
);
const PARAMETERS = Object.keys(Query.properties);
type ListQuery = ParametersOf<typeof Query>;

/** How far a search in content came, which its page does not show. */
const SEARCHED_FROM_HEADER = 'Idempay-Searched-From';

/** Payments as clients and operators look at them. */
export function listPayments(
  server: FastifyInstance,
  { paymentRecords: records }: { readonly paymentRecords: PaymentRecords },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/payments',
    {
      schema: { querystring: Query },
      config: { scopes: ['payments:read', 'operations', 'payments:read:all'], description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, PARAMETERS);
      const client = readableClient(request);
      const selection = { ...readSelection(request.query, client), reader: clientOf(request) };
      answerWith(reply, records.list(selection), ({ payments, next }) => {
        if (selection.content !== undefined) {
          const searchedFrom = next === undefined ? selection.claimedFrom : momentAbove(next);
          reply.header(SEARCHED_FROM_HEADER, new Date(searchedFrom ?? 0).toISOString());
        }
        if (next !== undefined) {
          reply.header('link', `<${pageAfter('/api/payments', request.query, cursorFor(next))}>; rel="next"`);
        }
        sendJson(reply, `[${payments.map((payment) => paymentJson(payment, client)).join(',')}]`);
      });
    },
  );
}

/**
 * The selection that a list asks for; throws the 400 that names the parameter. An empty one counts as absent, except for `reference` and
 * `content`: a page that asks for the payments of its order, and has lost the number, must not get everybody's payments. `client` is
 * undefined for a caller who sees all payments. Only such a caller searches in content: no index separates a client's search from the
 * payments of others.
 */
export function readSelection(query: ListQuery, client?: string): Selection {
  if (query.content !== undefined && client !== undefined)
    throw publicErrors.scopeMissing(['operations', 'payments:read:all']);
  const selection: Selection = {
    client,
    kind: kindAsked(query.kind),
    find: query.find ? prefixOf(query.find) : undefined,
    state: query.state ? stateNamed(query.state) : undefined,
    isPending: isPendingAsked(query.pending),
    processor: query.processor ? processorNamed(query.processor) : undefined,
    reference: query.reference === undefined ? undefined : referenceOf(query.reference),
    content: query.content === undefined ? undefined : contentTextOf(query.content),
    claimedFrom: query.from ? momentOf('from', query.from) : undefined,
    claimedTo: query.to ? momentOf('to', query.to) : undefined,
    before: query.cursor ? cursorOf(query.cursor) : undefined,
    limit: query.limit ? limitOf(query.limit, MAX_LIMIT) : DEFAULT_LIMIT,
  };
  const { content, claimedFrom, claimedTo } = selection;
  // No index has the content: a search goes through the payments of a time that somebody chose.
  if (content !== undefined && !(claimedFrom !== undefined && claimedFrom < (claimedTo ?? Number.POSITIVE_INFINITY))) {
    throw publicErrors.invalidRequest(
      "'content' is looked for from a day on: 'from' is needed, and must be before 'to'.",
    );
  }
  return selection;
}

/** The whole value of a member, so it is as long as one may be. */
function contentTextOf(text: string): string {
  const problem = textProblem("'content'", text, MOST_METADATA_VALUE, 1);
  if (problem !== undefined) throw publicErrors.invalidRequest(problem);
  return text;
}

/** ASCII only: the platform would also take the dotless i of "declıned" for an I. */
export function inUpperCase(text: string): string {
  return /^[a-z]+$/i.test(text) ? text.toUpperCase() : text;
}

function stateNamed(text: string): Selection['state'] {
  const state = STATES.find((known) => known === inUpperCase(text));
  if (!state) throw publicErrors.invalidRequest(`'state' must be one of ${STATES.join(', ')}.`);
  return state;
}

export const KINDS = ['payment', 'refund', 'all'] as const;

/** If it is absent, payments are meant. */
export function kindAsked(text: string | undefined): Selection['kind'] {
  if (!text) return undefined;
  const kind = KINDS.find((known) => known === text);
  if (!kind) throw publicErrors.invalidRequest(`'kind' must be one of ${KINDS.join(', ')}.`);
  return kind;
}

export const KIND: ParameterDescription = {
  text: '`refund`: only refunds; `all`: payments and refunds. If absent, only payments.',
  schema: { type: 'string', enum: KINDS, default: 'payment' },
};

/** `false` would need a read of every other payment, and no client asks for that. */
function isPendingAsked(text: string | undefined): true | undefined {
  if (!text) return undefined;
  if (text === 'true') return true;
  throw publicErrors.invalidRequest("'pending' must be 'true', or be left out.");
}

/** Ignores surrounding white space and dashes, which copied parts of keys may have. */
function prefixOf(text: string): Prefix {
  const trimmed = text.trim();
  if (ID_PREFIX.test(trimmed)) return { transactionId: trimmed.toUpperCase() };
  const keyDigits = trimmed.toLowerCase().replaceAll('-', '');
  if (KEY_PREFIX.test(keyDigits)) return { keyDigits };
  throw publicErrors.invalidRequest(
    "'find' must be the beginning of a key (hexadecimal digits and dashes) or of a transaction id (TXN and digits).",
  );
}

/** Names of processors are printable text; a database refuses some other texts. */
function processorNamed(text: string): string {
  if (isPrinted(text)) return text;
  throw publicErrors.invalidRequest("'processor' must be the name of a processor, as a payment shows it.");
}

/** Milliseconds since the epoch; throws the 400 that names the parameter. */
export function momentOf(name: string, text: string): number {
  // In a query an unescaped plus sign arrives as a space.
  const plain = text.replace(' ', '+');
  const isWritten = DAY.test(plain) || MOMENT.test(plain);
  const ms = isWritten && startOfDay(plain.slice(0, DAY_LENGTH)) !== undefined ? Date.parse(plain) : Number.NaN;
  if (Number.isNaN(ms)) {
    throw publicErrors.invalidRequest(`'${name}' must be a day (2026-11-20) or a moment (2026-11-20T13:00:00Z).`);
  }
  return ms;
}

/** Undefined for a day that does not exist, which `Date.parse` moves into the next month. */
export function startOfDay(day: string): number | undefined {
  const ms = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day) ? ms : undefined;
}

function referenceOf(text: string): string {
  if (mayBeListed(text)) return text;
  throw referenceRefusal(text);
}

/** The beginning of a page: the transaction id at which the page before ended, in a form that nobody takes for an id. */
export function cursorFor(transactionId: string): string {
  return Buffer.from(transactionId).toString('base64url');
}

function cursorOf(text: string): string {
  const transactionId = Buffer.from(text, 'base64url').toString('latin1');
  if (TRANSACTION_ID.test(transactionId) && cursorFor(transactionId) === text) return transactionId;
  throw publicErrors.invalidRequest("'cursor' must come from the Link header of the page before.");
}

const SEARCHED_FROM = sometimes(
  always(
    SEARCHED_FROM_HEADER,
    'With `content`: the pages up to this one have searched what was claimed from here on.',
    { type: 'string', format: 'date-time' },
    '2026-11-20T13:00:00.000Z',
  ),
);

const momentSchema = {
  anyOf: [
    { type: 'string', format: 'date' },
    { type: 'string', format: 'date-time' },
  ],
};

const description: RouteDescription = {
  operationId: 'listPayments',
  tag: 'Payment records',
  summary: 'List payments, newest first',
  text: 'In the order of their first claims, in pages: follow `Link`. A page may be short, even empty, and still have a next one, because a limited number of rows is read for it: without `Link` it is the last. A client sees its own payments, an operator (scope `operations`) those of all. An empty parameter counts as absent, except `reference` and `content`. An empty `reference` or `content` and an unknown parameter are refused.',
  parameters: {
    find: {
      text: 'Only payments whose key begins so (hexadecimal digits, with or without dashes), or whose transaction id does (`TXN` and digits). In any case.',
      schema: { type: 'string', minLength: 1 },
      example: EXAMPLE_KEY.slice(0, 13),
    },
    reference: {
      text: 'Only the attempts at this reference: all of them, of each client that may be seen. With `kind=refund` their refunds, with `kind=all` both.',
      schema: { type: 'string', pattern: '^[A-Za-z0-9._~:/@-]{1,128}$' },
      example: 'order-17',
    },
    content: {
      text: 'For operators: only payments with exactly this description, or value of the metadata. It needs `from`. A page reads 1,000 payments: `Idempay-Searched-From` says how far it came.',
      schema: { type: 'string', minLength: 1, maxLength: MOST_METADATA_VALUE },
      example: 'ann@shop.example',
    },
    kind: KIND,
    state: { text: 'Only payments in this state. In any case.', schema: { type: 'string', enum: STATES } },
    pending: {
      text: 'Only payments that are pending: they wait for their payer, or for the processor.',
      schema: { const: 'true' },
    },
    processor: { text: 'Only payments of the processor with this name.', schema: { type: 'string' } },
    from: {
      text: 'Only payments that were first claimed at or after this day (UTC, `2026-11-20`) or moment (`2026-11-20T13:00:00Z`).',
      schema: momentSchema,
    },
    to: {
      text: 'Only payments that were first claimed before this day or moment.',
      schema: momentSchema,
    },
    limit: {
      text: 'The length of a page.',
      schema: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
    },
    cursor: { text: 'From `Link` of the page before; opaque.', schema: { type: 'string', minLength: 1 } },
  },
  answers: {
    200: {
      text: 'A page.',
      headers: [NO_STORE, linkToNextPage('/api/payments', 'Link', EXAMPLE_KEY), SEARCHED_FROM],
      content: {
        mediaType: 'application/json',
        schema: { type: 'array', items: { $ref: '#/components/schemas/Payment' } },
        examples: { page: [examplePayment()] },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ stat: '' }, PARAMETERS),
      invalidFind: () => readSelection({ find: 'order-17' }),
    },
    'invalidReference',
    {
      invalidContent: () => readSelection({ content: '' }),
      brokenContent: () => readSelection({ content: '\0' }),
      contentWithoutFrom: () => readSelection({ content: 'Shoes' }),
      contentOfClient: () => readSelection({ content: 'Shoes' }, 'key:shop'),
      invalidPending: () => readSelection({ pending: 'false' }),
      invalidKind: () => readSelection({ kind: 'refunds' }),
      invalidState: () => readSelection({ state: 'PAID' }),
      invalidProcessor: () => readSelection({ processor: '\0' }),
      invalidFrom: () => readSelection({ from: 'yesterday' }),
      invalidTo: () => readSelection({ to: 'tomorrow' }),
      invalidLimit: () => readSelection({ limit: '0' }),
      invalidCursor: () => readSelection({ cursor: '2' }),
    },
  ],
};
