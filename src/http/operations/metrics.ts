import type { FastifyInstance } from 'fastify';
import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';

/** Prometheus' text format. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The text of `GET /metrics`. Asks no store. */
export interface Metrics {
  text(): string;
}

/** Rule O2. */
export function metricsText(app: FastifyInstance, { metrics }: { readonly metrics: Metrics }): void {
  app.get('/metrics', { config: { scopes: ['metrics'], description } }, async (_request, reply) =>
    reply.header('content-type', CONTENT_TYPE).header('cache-control', 'no-store').send(metrics.text()),
  );
}

const description: RouteDescription = {
  operationId: 'getMetrics',
  tag: 'Operations',
  summary: "Metrics of the process in Prometheus' text format",
  text: 'Asks no store. Collect each process, not the load balancer.',
  answers: {
    200: {
      text: 'The metrics.',
      headers: [NO_STORE],
      content: {
        mediaType: 'text/plain',
        schema: { type: 'string' },
        examples: { some: 'idempay_payments_total{outcome="processed"} 12\n' },
      },
    },
  },
  asksNoStore: true,
};
