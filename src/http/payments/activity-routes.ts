import type { FastifyInstance } from 'fastify';
import type { Activity } from '../../payments/history/payment-activity.js';
import { answerWith } from '../errors/errors.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import * as descriptions from './activity-description.js';

/** How many payments were settled in the last 24 hours, for a chart. */
export function registerPaymentActivityRoute(app: FastifyInstance, activity: () => Promise<Activity>): void {
  app.get(
    '/api/payments/activity',
    { config: { scopes: ['operations'], description: descriptions.paymentActivity } },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      answerWith(reply, activity(), (counted) => {
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(JSON.stringify(counted));
      });
    },
  );
}
