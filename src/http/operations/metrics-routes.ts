import type { FastifyInstance } from 'fastify';
import * as descriptions from './service-description.js';

/** Prometheus' text format. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The text of `GET /metrics`. Asks no store. */
export interface Metrics {
  text(): string;
}

/** Rule O2. */
export function registerMetricsRoute(app: FastifyInstance, metrics: Metrics): void {
  app.get('/metrics', { config: { scopes: ['metrics'], description: descriptions.metrics } }, async (_request, reply) =>
    reply.header('content-type', CONTENT_TYPE).header('cache-control', 'no-store').send(metrics.text()),
  );
}
