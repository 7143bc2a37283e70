import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isClient } from '../../access/client-name.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import type { OperationKind } from '../../payments/ports/payment-history.js';
import type { FeedPage, FeedPosition, FeedQuestion, SettlementFeed } from '../../payments/settlement-feed.js';
import { UUID } from '../../payments/values/idempotency-key.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { always, NO_STORE, sometimes } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RequestHeader, RouteDescription } from '../openapi/route-description.js';
import { visibleClient } from '../requests/access-check.js';
import { clientGone } from '../requests/client-gone.js';
import { sendJson } from '../requests/json-answer.js';
import { type ParametersOf, type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { preferredWaitSeconds } from '../requests/prefer.js';
import { limitOf, refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { KINDS, kindAsked, momentOf } from './list-payments.js';
import { withPreference } from './payment-answers.js';
import { completed, examplePayment } from './shown-payment.js';

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;
const US_PER_MS = 1_000;
/** The digits of a second after its milliseconds, which `Date` does not keep. */
const MICROSECONDS = /\.\d{3}(\d{1,3})\d*(?:Z|[ +-]\d{2}:\d{2})$/i;

const Query = querySchema('after', 'from', 'kind', 'limit', 'client');
const PARAMETERS = Object.keys(Query.properties);
/** Any of these. A client needs the second one to see the settlements of others. */
const SCOPES = ['payments:read', 'operations'] as const;
type FeedQuery = ParametersOf<typeof Query>;

/** The feed of settlements. */
export function listSettlements(
  server: FastifyInstance,
  { settlementFeed: feed }: { readonly settlementFeed: Pick<SettlementFeed, 'read'> },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/settlements',
    {
      schema: { querystring: Query },
      config: { scopes: SCOPES, description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, PARAMETERS);
      const seconds = preferredWaitSeconds(request.headers.prefer);
      const patience = seconds === undefined ? undefined : { ms: seconds * 1_000, gone: clientGone(reply) };
      const question = { ...readFeedQuestion(request.query, request), patience, reader: clientOf(request) };
      const client = visibleClient(request);
      const reading = feed.read(question, (settlement) => paymentJson(settlement, client));
      answerWith(reply, reading, async (page) => {
        if (seconds !== undefined) await judgeAgain(request, client);
        if (page.state !== 'page') throw refusalOf(page);
        if (seconds !== undefined) withPreference(reply, `wait=${seconds}`);
        sendJson(reply, pageJson(page));
      });
    },
  );
}

/** A credential may be revoked or expire during the wait, or lose the scope that showed the settlements of others. */
async function judgeAgain(request: FastifyRequest, client: string | undefined): Promise<void> {
  const refusal = await request.server.refusalNow(request, client === undefined ? ['operations'] : SCOPES);
  if (refusal) throw refusal;
}

type ShownPage = Extract<FeedPage<string>, { readonly state: 'page' }>;

function pageJson({ settlements, next }: ShownPage): string {
  return `{"settlements":[${settlements.join(',')}],"next":"${cursorFor(next)}"}`;
}

function refusalOf({ state, fromUs }: Exclude<FeedPage<string>, ShownPage>): Error {
  const from = momentText(fromUs);
  return state === 'removed' ? publicErrors.settlementsRemoved(from) : publicErrors.settlementsIncarnation(from);
}

/** The question that a query asks; throws the error that names the parameter. An empty parameter is refused, except `kind` and `limit`. */
function readFeedQuestion(
  { after, from, kind, limit, client }: FeedQuery,
  request: Pick<FastifyRequest, 'caller'>,
): FeedQuestion {
  if (after !== undefined && from !== undefined) {
    throw publicErrors.invalidRequest("'after' has a place already: send it or 'from', and not both.");
  }
  return {
    after: after === undefined || after === 'now' ? (after ?? fromOf(from)) : positionOf(after),
    client: client === undefined ? visibleClient(request) : clientNamed(client, request),
    kind: kindOf(kind),
    limit: limit ? limitOf(limit, MAX_LIMIT) : DEFAULT_LIMIT,
  };
}

function clientNamed(client: string, request: Pick<FastifyRequest, 'caller'>): string {
  if (visibleClient(request) !== undefined) throw publicErrors.scopeMissing(['operations']);
  if (isClient(client)) return client;
  throw publicErrors.invalidRequest("'client' must be a client as the records have it, such as 'key:shop'.");
}

function kindOf(text: string | undefined): OperationKind | undefined {
  const kind = kindAsked(text);
  return kind === 'all' ? undefined : kind;
}

function fromOf(text: string | undefined): FeedQuestion['after'] {
  if (text === undefined) return undefined;
  const [, digits = ''] = MICROSECONDS.exec(text) ?? [];
  return { fromUs: momentOf('from', text) * US_PER_MS + Number(digits.padEnd(3, '0')) };
}

/** The text has microseconds, so that a reader which begins there misses nothing. */
function momentText(us: number): string {
  const ms = Math.floor(us / US_PER_MS);
  const digits = String(us - ms * US_PER_MS).padStart(3, '0');
  return new Date(ms).toISOString().replace('Z', `${digits}Z`);
}

const CURSOR = /^([0-9a-f]{16})\.(\d{1,16})(?:\.(.{36}))?$/;

/** The cursor of a position. It is opaque, so that no client computes with it. */
function cursorFor({ incarnation, atUs, key }: FeedPosition): string {
  return Buffer.from([incarnation, atUs, ...(key === undefined ? [] : [key])].join('.')).toString('base64url');
}

function positionOf(cursor: string): FeedPosition {
  const [, incarnation, us, key] = CURSOR.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? [];
  if (incarnation !== undefined && (key === undefined || UUID.test(key))) {
    const position = { incarnation, atUs: Number(us), key };
    if (cursorFor(position) === cursor) return position;
  }
  throw publicErrors.invalidRequest("'after' must be 'now', or the 'next' of a page.");
}

const PREFER: RequestHeader = {
  name: 'Prefer',
  text: '`wait=N` (RFC 7240): if there is no settlement yet, the answer waits up to N seconds, at most 30, for the first one.',
  required: false,
  schema: { type: 'string' },
};

const PREFERENCE_APPLIED = sometimes({
  ...always(
    'Preference-Applied',
    'The answer would have waited, for at most this number of seconds.',
    { type: 'string', pattern: '^wait=([1-9]|[12][0-9]|30)$' },
    'wait=30',
  ),
  component: 'Preference-Applied-wait',
});

const EXAMPLE_POSITION = { incarnation: '5f3c9a1b2d4e6f70', atUs: (completed.settledAt as number) * US_PER_MS };
const EXAMPLE_CURSOR = cursorFor(EXAMPLE_POSITION);

export const SettlementPageSchema = whole(
  {
    settlements: { type: 'array', items: { $ref: '#/components/schemas/Payment' } },
    next: {
      type: 'string',
      minLength: 1,
      description: '`after` of the next page; opaque. Keep it when the page is processed.',
    },
  },
  'Settlements in the order of `settledAt`. An empty page has a `next` too.',
);

const description: RouteDescription = {
  operationId: 'listSettlements',
  tag: 'Payment records',
  summary: 'Follow settlements in the order in which they were made',
  text: 'Payments and refunds that became `COMPLETED`, `DECLINED` or `CANCELLED`, each exactly once if every page is asked for with the `next` of the page before. A settlement appears when none with an earlier place can still be committed, usually within half a second. A client sees its own settlements, an operator (scope `operations`) those of all. At most 10,000 rows are read for a page, so a page may be short, even empty, and not the last. After a 410, begin again with `from` of `Idempay-Settlements-From`: some settlements then come again, and each names its key and state.',
  parameters: {
    after: {
      text: 'The `next` of the page before, or `now` for a cursor of this moment, without settlements. Without `after` and `from` the feed begins with the oldest settlement that retention has left.',
      schema: { type: 'string', minLength: 1 },
      example: 'now',
    },
    from: {
      text: 'Begins with settlements of this day (UTC, `2026-11-20`) or moment (`2026-11-20T13:00:00Z`).',
      schema: {
        anyOf: [
          { type: 'string', format: 'date' },
          { type: 'string', format: 'date-time' },
        ],
      },
    },
    kind: {
      text: '`payment` or `refund`: only these. If absent, both.',
      schema: { type: 'string', enum: KINDS, default: 'all' },
    },
    limit: {
      text: 'The length of a page.',
      schema: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
    },
    client: {
      text: 'For operators: only settlements of this client, such as `key:shop`, exactly as the records have it.',
      schema: { type: 'string', minLength: 1 },
    },
  },
  headers: [PREFER],
  answers: {
    200: {
      text: 'A page.',
      headers: [NO_STORE, PREFERENCE_APPLIED],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/SettlementPage' },
        examples: {
          page: { settlements: [examplePayment()], next: EXAMPLE_CURSOR },
          empty: { settlements: [], next: EXAMPLE_CURSOR },
        },
      },
    },
  },
  errors: [
    'settlementsIncarnation',
    'settlementsRemoved',
    {
      unknownParameter: () => refuseUnknownParameters({ cursor: '' }, PARAMETERS),
      invalidAfter: () => readFeedQuestion({ after: '2' }, { caller: undefined }),
      invalidFrom: () => readFeedQuestion({ from: 'yesterday' }, { caller: undefined }),
      afterAndFrom: () => readFeedQuestion({ after: 'now', from: '2026-11-20' }, { caller: undefined }),
      invalidKind: () => readFeedQuestion({ kind: 'refunds' }, { caller: undefined }),
      invalidLimit: () => readFeedQuestion({ limit: '0' }, { caller: undefined }),
      invalidClient: () => readFeedQuestion({ client: '' }, { caller: undefined }),
      otherClient: () => readFeedQuestion({ client: 'key:shop' }, { caller: { client: 'key:web', scopes: new Set() } }),
    },
  ],
};
