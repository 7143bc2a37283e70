import type { FastifyInstance } from 'fastify';
import { type Activity, BUCKET_MS, BUCKETS } from '../../payments/history/payment-activity.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { sendJson } from '../requests/json-answer.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';

/** How many payments were settled in the last 24 hours, for a chart. */
export function paymentActivity(
  app: FastifyInstance,
  { paymentActivity: activity }: { readonly paymentActivity: () => Promise<Activity> },
): void {
  app.get('/api/payments/activity', { config: { scopes: ['operations'], description } }, (request, reply) => {
    refuseUnknownParameters(request.query, []);
    answerWith(reply, activity(), (counted) => {
      sendJson(reply, JSON.stringify(counted));
    });
  });
}

const count = { type: 'integer', minimum: 0 };
const moment = { type: 'integer', description: 'Milliseconds since 1970.' };

const description: RouteDescription = {
  operationId: 'getPaymentActivity',
  tag: 'Payment records',
  summary: 'Count the payments that were settled in the last 24 hours',
  text: 'In buckets of ten minutes by the time of settling, the last of which is still open, out of the rows of all processes. A process counts each row once, and remembers. With very many payments the first answers have the newest buckets only (`complete` is false): ask again.',
  answers: {
    200: {
      text: 'The counts, oldest first.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: whole({
          bucketMs: { const: BUCKET_MS },
          to: moment,
          complete: { type: 'boolean', description: 'Whether all buckets are there.' },
          buckets: {
            type: 'array',
            maxItems: BUCKETS,
            items: whole({ from: moment, completed: count, declined: count }),
          },
        }),
        examples: {
          begun: {
            bucketMs: BUCKET_MS,
            to: 1_795_000_123_456,
            complete: false,
            buckets: [
              { from: 1_794_999_000_000, completed: 812, declined: 9 },
              { from: 1_794_999_600_000, completed: 790, declined: 12 },
            ],
          },
        },
      },
    },
  },
  errors: [{ unknownParameter: () => refuseUnknownParameters({ from: '' }, []) }],
};
