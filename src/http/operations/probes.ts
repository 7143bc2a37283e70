import type { FastifyInstance } from 'fastify';
import type { Readiness } from '../../health/readiness.js';
import { type JsonSchema, objectWith, TEXT } from '../../platform/json-schema.js';
import { publicErrors } from '../errors/catalogue.js';
import { ofThisMoment } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';

export const LIVENESS_PATH = '/livez';
export const READINESS_PATH = '/readyz';
export const ALIVE = { status: 'alive' } as const;

const PART_STATES = ['up', 'away'];
export const ReadinessSchema = objectWith({
  status: oneOf('ready', 'degraded'),
  storeOfRecord: oneOf(...PART_STATES),
  keyValueStore: oneOf(...PART_STATES, 'full'),
  processor: oneOf(...PART_STATES),
});

function oneOf(...texts: readonly string[]): JsonSchema {
  return { anyOf: texts.map((text) => ({ ...TEXT, const: text })) };
}

/** Rule O1. Before the stores are open `bare-answers.ts` answers in their place. */
export function probes(server: FastifyInstance, { readiness }: { readonly readiness: Readiness }): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(LIVENESS_PATH, { config: { scopes: 'open', neverLimited: true, description: livez } }, (_request, reply) => {
    reply.header('cache-control', 'no-store').send(ALIVE);
  });

  app.get(
    READINESS_PATH,
    {
      schema: { response: { 200: ReadinessSchema } },
      config: { scopes: 'open', neverLimited: true, description: readyz },
    },
    async (_request, reply) => {
      if (readiness.isDraining) throw publicErrors.draining();
      const { parts, isReady } = await readiness.look();
      // A signal may have come meanwhile.
      if (readiness.isDraining) throw publicErrors.draining();
      if (!isReady) throw publicErrors.storeOfRecordAway();
      const status = Object.values(parts).every((part) => part === 'up') ? 'ready' : 'degraded';
      return reply.header('cache-control', 'no-store').send({ status, ...parts } as const);
    },
  );
}

const livez: RouteDescription = {
  operationId: 'getLiveness',
  tag: 'Operations',
  summary: 'Whether the process works',
  text: 'Asks no store. Answered also while the service starts.',
  answers: {
    200: ofThisMoment(
      'It works.',
      { type: 'object', required: ['status'], properties: { status: { const: 'alive' } }, additionalProperties: false },
      { status: 'alive' },
    ),
  },
  asksNoStore: true,
  isProbe: true,
};

const readyz: RouteDescription = {
  operationId: 'getReadiness',
  tag: 'Operations',
  summary: 'Whether to send requests to this process',
  text: '`degraded`: Redis or the processor is down; or Redis is `full`: keys without a reference get 503; or no process reaches PostgreSQL: only repeats are answered. 503 if PostgreSQL is down for this process, and another one reached it within ten seconds. Answers within a second.',
  answers: {
    200: ofThisMoment(
      'Send requests here.',
      { $ref: '#/components/schemas/Readiness' },
      { status: 'ready', storeOfRecord: 'up', keyValueStore: 'up', processor: 'up' },
    ),
  },
  errors: ['starting', 'draining', 'storeOfRecordAway'],
  asksNoStore: true,
  isProbe: true,
};
