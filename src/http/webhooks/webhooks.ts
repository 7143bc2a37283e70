import type { FastifyInstance } from 'fastify';
import { isoTime } from '../../payments/history/payment-representation.js';
import { UUID } from '../../payments/values/idempotency-key.js';
import { safeJson } from '../../platform/safe-json.js';
import { ENDPOINT_NAME } from '../../webhooks/endpoint-file.js';
import { type ListedEndpoint, MOST_COUNTED, type WebhookOperations } from '../../webhooks/operations.js';
import type { SetAside } from '../../webhooks/ports/endpoint-rows.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import { moment, orNull, whole } from '../openapi/json-schema.js';
import type { AnswerDescription, ParameterDescription, RouteDescription } from '../openapi/route-description.js';
import { sendJson } from '../requests/json-answer.js';
import { type ParametersProvider, pathSchema, querySchema } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';

const NamePath = pathSchema('name');
const ResendQuery = querySchema('key');
const RESEND_PARAMETERS = Object.keys(ResendQuery.properties);
const US_PER_MS = 1_000;

/** The endpoints that are told of settlements, and what an operator does with them (rule E2). */
export function webhooks(
  server: FastifyInstance,
  { webhookOperations: operations }: { readonly webhookOperations: WebhookOperations },
): void {
  const app = server.withTypeProvider<ParametersProvider>();
  const schema = { params: NamePath };
  const changing = { operation: 'change webhook', scopes: ['operations'] } as const;

  app.get('/api/webhooks', { config: { scopes: ['operations'], description: listing } }, (request, reply) => {
    refuseUnknownParameters(request.query, []);
    answerWith(reply, operations.list(), (rows) => sendJson(reply, safeJson({ webhooks: rows.map(shown) })));
  });

  app.get(
    '/api/webhooks/:name',
    { schema, config: { scopes: ['operations'], description: reading } },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const name = nameOf(request.params);
      answerWith(reply, operations.find(name), (found) => {
        if (!found) throw publicErrors.webhookNotFound(name);
        sendJson(reply, safeJson({ ...shown(found.endpoint), settlements: found.setAside.map(shownSetAside) }));
      });
    },
  );

  for (const [verb, description] of [
    ['start', starting],
    ['stop', stopping],
  ] as const) {
    app.post(`/api/webhooks/:name/${verb}`, { schema, config: { ...changing, description } }, (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const name = nameOf(request.params);
      const changed = operations[verb](name).then(async (isThere) =>
        isThere ? (await operations.find(name))?.endpoint : undefined,
      );
      answerWith(reply, changed, (endpoint) => {
        if (!endpoint) throw publicErrors.webhookNotFound(name);
        sendJson(reply, safeJson(shown(endpoint)));
      });
    });
  }

  app.post(
    '/api/webhooks/:name/resend',
    { schema: { ...schema, querystring: ResendQuery }, config: { ...changing, description: resending } },
    (request, reply) => {
      refuseUnknownParameters(request.query, RESEND_PARAMETERS);
      const name = nameOf(request.params);
      answerWith(reply, operations.resend(name, keyOf(request.query.key)), (count) => {
        if (count === undefined) throw publicErrors.webhookNotFound(name);
        sendJson(reply, safeJson({ resent: count }));
      });
    },
  );
}

/** A store is asked only for names that it may have: a text of PostgreSQL cannot have every character. */
function nameOf({ name }: { readonly name: string }): string {
  if (ENDPOINT_NAME.test(name)) return name;
  throw publicErrors.webhookNotFound(name);
}

function keyOf(text: string | undefined): string | undefined {
  if (text === undefined || UUID.test(text)) return text?.toLowerCase();
  throw publicErrors.invalidRequest("'key' must be the key of a settlement that is set aside.");
}

/** An endpoint with every member, which is null if it has no value. */
function shown({ name, client, receiver, stoppedBy, position, behind, setAside }: ListedEndpoint) {
  return {
    name,
    receiver: receiver ?? null,
    client: client ?? null,
    stoppedBy: stoppedBy ?? null,
    deliveredUntil: timeOf(position.atUs),
    behind: behind?.count ?? null,
    behindSince: behind?.sinceUs === undefined ? null : timeOf(behind.sinceUs),
    setAside,
  };
}

const timeOf = (us: number) => isoTime(Math.floor(us / US_PER_MS));

function shownSetAside({ key, cause, setAsideAt, nextTryAt }: SetAside) {
  return { idempotencyKey: key, cause, setAsideAt: isoTime(setAsideAt), nextTryAt: isoTime(nextTryAt) };
}

const MEMBERS = {
  name: { type: 'string', description: 'As `WEBHOOKS_FILE` has it.' },
  receiver: orNull({
    type: 'string',
    description: 'Scheme, host and port of its address. Null: it is not in the file of the process that answers.',
  }),
  client: orNull({ type: 'string', description: 'Only settlements of this client; null: of all.' }),
  stoppedBy: {
    enum: ['receiver', 'operator', null],
    description: 'Null: it is served. `receiver`: it answered 410. Nothing is sent until it is started.',
  },
  deliveredUntil: {
    ...moment,
    description: 'Settlements before this time were taken, or are set aside. At rest it is about a minute old.',
  },
  behind: orNull({
    type: 'integer',
    minimum: 0,
    maximum: MOST_COUNTED,
    description: `Settlements after the position of the endpoint, counted up to ${MOST_COUNTED}. Null: the endpoint is not in the file of the process that answers, or the feed cannot tell at the moment.`,
  }),
  behindSince: orNull({ ...moment, description: 'When the oldest of them was settled; null if there is none.' }),
  setAside: {
    type: 'integer',
    minimum: 0,
    description: 'Settlements that the endpoint refused again and again while it took others.',
  },
};

export const WebhookSchema = whole(MEMBERS, 'An endpoint that is told of settlements.');

export const WebhookDetailsSchema = whole(
  {
    ...MEMBERS,
    settlements: {
      type: 'array',
      description: 'Set aside, the longest first.',
      items: whole({
        idempotencyKey: { type: 'string', format: 'uuid' },
        cause: { type: 'string', description: 'Why it was refused last. Nothing of an answer but its status.' },
        setAsideAt: moment,
        nextTryAt: orNull({ ...moment, description: 'Once an hour for three days; null: only by hand.' }),
      }),
    },
  },
  'An endpoint, with the settlements that are set aside.',
);

const EXAMPLE = {
  name: 'shop',
  receiver: 'https://shop.example',
  client: 'key:shop',
  stoppedBy: null,
  deliveredUntil: '2026-11-20T13:00:00.000Z',
  behind: 1,
  behindSince: '2026-11-20T13:00:05.000Z',
  setAside: 1,
};

const NAME: ParameterDescription = {
  text: 'The name of the endpoint.',
  schema: { type: 'string', pattern: ENDPOINT_NAME.source },
  example: 'shop',
};

const theEndpoint = (text: string): AnswerDescription => ({
  text,
  headers: [NO_STORE],
  content: {
    mediaType: 'application/json',
    schema: { $ref: '#/components/schemas/Webhook' },
    examples: { endpoint: EXAMPLE },
  },
});

const listing: RouteDescription = {
  operationId: 'listWebhooks',
  tag: 'Webhooks',
  summary: 'List the endpoints that are told of settlements',
  text: 'Each endpoint that was ever served, by name. An endpoint that was taken out of `WEBHOOKS_FILE` stays in the list, and goes on from its position if it comes back.',
  answers: {
    200: {
      text: 'The endpoints.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: whole({ webhooks: { type: 'array', items: { $ref: '#/components/schemas/Webhook' } } }),
        examples: { endpoints: { webhooks: [EXAMPLE] } },
      },
    },
  },
  errors: [{ unknownParameter: () => refuseUnknownParameters({ name: '' }, []) }],
};

const reading: RouteDescription = {
  operationId: 'getWebhook',
  tag: 'Webhooks',
  summary: 'One endpoint, with the settlements that are set aside',
  text: 'At most 1,000 are set aside; then the endpoint gets no others until some of them are taken.',
  parameters: { name: NAME },
  answers: {
    200: {
      text: 'The endpoint.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/WebhookDetails' },
        examples: {
          endpoint: {
            ...EXAMPLE,
            settlements: [
              {
                idempotencyKey: EXAMPLE_KEY,
                cause: 'it answered 500',
                setAsideAt: '2026-11-20T12:00:00.000Z',
                nextTryAt: '2026-11-20T14:00:00.000Z',
              },
            ],
          },
        },
      },
    },
  },
  errors: ['webhookNotFound', { unknownParameter: () => refuseUnknownParameters({ key: '' }, []) }],
};

const changed = {
  tag: 'Webhooks',
  parameters: { name: NAME },
  errors: ['webhookNotFound', { unknownParameter: () => refuseUnknownParameters({ key: '' }, []) }],
} as const;

const starting: RouteDescription = {
  ...changed,
  operationId: 'startWebhook',
  summary: 'Serve an endpoint again',
  text: 'It goes on where it was stopped. The same request may be sent again.',
  answers: { 200: theEndpoint('It is served from now on.') },
};

const stopping: RouteDescription = {
  ...changed,
  operationId: 'stopWebhook',
  summary: 'Send nothing more to an endpoint',
  text: 'Until it is started: then it goes on where it was. It counts within a few seconds. The same request may be sent again.',
  answers: { 200: theEndpoint('It is stopped.') },
};

const resending: RouteDescription = {
  operationId: 'resendWebhook',
  tag: 'Webhooks',
  summary: 'Try settlements that are set aside again',
  text: 'At once, all of the endpoint or one. The endpoint must be served.',
  parameters: {
    name: NAME,
    key: { text: 'Only this settlement.', schema: { type: 'string', format: 'uuid' } },
  },
  answers: {
    200: {
      text: 'They are tried within a few seconds.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: whole({ resent: { type: 'integer', minimum: 0, description: 'The number of them.' } }),
        examples: { resent: { resent: 3 } },
      },
    },
  },
  errors: [
    'webhookNotFound',
    {
      unknownParameter: () => refuseUnknownParameters({ name: '' }, RESEND_PARAMETERS),
      invalidKey: () => keyOf('order-17'),
    },
  ],
};
