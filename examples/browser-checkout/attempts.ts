import type { Idempay } from '@idempay/client';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Attempt, Orders } from '../shop/orders.ts';
import { payAttempt } from '../shop/payments.ts';

/**
 * The requests of a payment, for one attempt at one order: the client in the page has `/orders/ID/payments/NUMBER` as its `baseUrl`, and
 * the shop answers it in Idempay's words. The shop decides what the page cannot: the amount is that of the order, the credential and the
 * key of the attempt stay here, and only the shop's own client judges what Idempay answers. The page's key is the id of the order.
 */
export function serveAttempts(app: FastifyInstance, orders: Orders, idempay: Idempay): void {
  const base = '/orders/:id/payments/:number/api';
  type Route = { Params: { id: string; number: string }; Body: { amount?: unknown; currency?: unknown } | null };

  async function attemptOf({ id, number }: Route['Params']): Promise<Attempt | undefined> {
    const order = await orders.find(id);
    return order && orders.attempt(order, Number(number));
  }

  app.get<Route>(`${base}/server-generated/generate-key`, async (request, reply) => {
    const attempt = await attemptOf(request.params);
    if (!attempt) return refuse(reply, 404, 'Not Found', 'There is no such attempt. Read the order again.');
    return answer(reply, attempt.order.id);
  });

  app.post<Route>(`${base}/payment`, async (request, reply) => {
    const attempt = await attemptOf(request.params);
    if (!attempt) return refuse(reply, 404, 'Not Found', 'There is no such attempt. Read the order again.');
    const { id, price } = attempt.order;
    const { amount, currency } = request.body ?? {};
    if (request.headers['idempotency-key'] !== id) return refuse(reply, 400, 'Bad Request', INVALID_KEY);
    if (amount !== price.amount || currency !== price.currency) {
      return refuse(reply, 400, 'Bad Request', "'amount' and 'currency' must be those of the order. Read it again.");
    }
    const standing = await payAttempt(idempay, orders, attempt);
    switch (standing.state) {
      case 'paid':
        return answer(reply, `Payment processed successfully with Transaction ID: ${standing.transactionId}`);
      case 'declined':
        return refuse(reply, 402, 'Payment Required', `Payment declined: ${standing.reason}`);
      // The client in the page asks for the record then, and ends with a DeadKeyError.
      case 'unresolved':
        return refuse(reply, 400, 'Bad Request', INVALID_KEY);
      case 'unknown':
        return refuse(reply, 504, 'Gateway Timeout', 'The outcome of the payment is not known yet.');
      case 'unavailable':
        reply.header('retry-after', '1');
        return refuse(reply, 503, 'Service Unavailable', 'Idempay cannot be reached: nothing was begun. Try again.');
    }
  });

  app.get<Route>(`${base}/payments/:key`, async (_request, reply) => refuse(reply, 404, 'Not Found', NO_RECORD));
}

const INVALID_KEY = 'Invalid or missing Idempotency-Key.';
const NO_RECORD =
  'No payment found for this Idempotency-Key, and it is not certain that nothing was charged with it: the shop looks for it.';

/** The header tells the client in the page that the shop has answered, and nothing in between. */
const answer = (reply: FastifyReply, text: string) =>
  reply.header('idempay', '1').type('application/json').send(JSON.stringify(text));

/** The body of Idempay's own errors. */
const refuse = (reply: FastifyReply, status: number, error: string, message: string) =>
  reply.header('idempay', '1').code(status).send({ status, error, message });
