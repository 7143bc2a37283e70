import type { FastifyInstance } from 'fastify';
import type { Access } from '../../access/access.js';
import { SCOPES } from '../../access/scopes.js';
import { shownProcessor } from '../../payments/processors/processor-url.js';
import { NO_STORE } from '../openapi/headers.js';
import { orNull, whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { PROCESSOR } from '../payments/shown-payment.js';
import { visibleClient } from '../requests/access-check.js';

/** Facts that stay the same while the process runs, except `movesMoney`. */
export interface SessionFacts {
  readonly access: 'none' | 'required';
  readonly version: string;
  readonly deployment: 'embedded' | 'distributed';
  /** Names this process in the rows that it claims. */
  readonly instance: string;
  readonly processor: {
    readonly name: string;
    /** Null until the processor has answered. */
    movesMoney(): Promise<boolean | null>;
  };
  readonly recovery: { readonly dedupSeconds: number; readonly keyTtlSeconds: number };
}

/** The first request of the console: the caller, its scopes, and facts about this process. */
export function session(
  app: FastifyInstance,
  { session: facts, access: keys }: { readonly session: SessionFacts; readonly access: Access | undefined },
): void {
  app.get('/api/session', { config: { scopes: SCOPES, description } }, async (request, reply) => {
    const { caller } = request;
    const { access, version, deployment, instance, processor, recovery } = facts;
    // In the order of the list, for any order in the credential.
    const scopes = SCOPES.filter((scope) => !caller || caller.scopes.has(scope));
    return reply.header('cache-control', 'no-store').send({
      client: caller?.client ?? null,
      access,
      scopes,
      clients: caller?.scopes.has('operations') ? (keys?.clients() ?? []) : [],
      version,
      deployment,
      instance,
      processor: {
        name: shownProcessor(processor.name, visibleClient(request)),
        movesMoney: await processor.movesMoney(),
      },
      recovery,
    });
  });
}

const description: RouteDescription = {
  operationId: 'getSession',
  tag: 'Console',
  isOfPage: true,
  summary: 'The caller, its scopes, and the process that answered',
  text: 'With any scope. Without `AUTH=required` everybody has all of them.',
  answers: {
    200: {
      text: 'The session.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/Session' },
        examples: {
          operator: {
            client: 'key:operator',
            access: 'required',
            scopes: ['operations', 'metrics'],
            clients: ['key:shop', 'key:operator'],
            version: '0.1.0',
            deployment: 'embedded',
            instance: '6f1d7c1e-0d5c-4b8e-9b53-1d8f3c1f7a10',
            processor: { name: 'simulated', movesMoney: false },
            recovery: { dedupSeconds: 72_000, keyTtlSeconds: 86_400 },
          },
        },
      },
    },
  },
  asksNoStore: true,
};

export const SessionSchema = whole(
  {
    client: orNull({
      type: 'string',
      description: '`key:NAME`, `jwt:APPLICATION` or `jwt-sub:SUBJECT`. Null without `AUTH=required`.',
    }),
    access: { type: 'string', enum: ['none', 'required'] },
    scopes: { type: 'array', items: { type: 'string', enum: SCOPES } },
    clients: {
      type: 'array',
      items: { type: 'string' },
      description: 'For operators: the clients of the file of API keys, to choose one whose order is meant.',
    },
    version: { type: 'string' },
    deployment: { type: 'string', enum: ['embedded', 'distributed'] },
    instance: { type: 'string', format: 'uuid', description: 'The process that answered, until it ends.' },
    processor: whole(
      {
        name: { type: 'string', description: PROCESSOR },
        movesMoney: {
          type: ['boolean', 'null'],
          description: 'Whether payments move money. Null: the processor has not answered yet.',
        },
      },
      'Who moves the money.',
    ),
    recovery: whole(
      {
        dedupSeconds: {
          type: 'integer',
          description: 'Seconds after its claim in which a payment may be sent again (`PROCESSOR_DEDUP_SECONDS`).',
        },
        keyTtlSeconds: {
          type: 'integer',
          description: 'Seconds that an idempotency key lives (`IDEMPOTENCY_TTL_SECONDS`).',
        },
      },
      'How long the service itself can finish a payment.',
    ),
  },
  'The caller, its scopes, and the process that answered.',
);
