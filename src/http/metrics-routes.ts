import type { FastifyInstance } from 'fastify';
import * as descriptions from './description/service.js';

/** The text of `GET /metrics`. Asks no store. */
export interface Metrics {
  readonly contentType: string;
  text(): Promise<string>;
}

/** Decisions O2. */
export function registerMetricsRoute(app: FastifyInstance, metrics: Metrics): void {
  app.get(
    '/metrics',
    { config: { scopes: ['metrics'], description: descriptions.metrics } },
    async (_request, reply) => {
      const text = await metrics.text();
      return reply.header('content-type', metrics.contentType).header('cache-control', 'no-store').send(text);
    },
  );
}
