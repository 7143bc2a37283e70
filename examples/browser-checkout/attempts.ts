import type { FastifyInstance, FastifyReply } from 'fastify';
import { keepOnce, keptText } from '../keep-once.ts';
import type { Attempt, Orders, Outcome } from '../shop/orders.ts';

interface Service {
  readonly url: string;
  readonly apiKey: string | undefined;
}

/** What a page needs of Idempay's answers. */
const PASSED_ON = ['content-type', 'retry-after', 'idempotent-replayed', 'x-request-id'];
const PAYMENT_MS = 30_000;

/**
 * The two requests of a payment, for one attempt at one order: the client in the page has `/orders/ID/payments/NUMBER` as its `baseUrl`.
 * The shop decides what the page cannot: the key is that of the attempt, the amount that of the order, and the credential stays here.
 */
export function serveAttempts(app: FastifyInstance, orders: Orders, { url, apiKey }: Service): void {
  const credential = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  type Route = { Params: { id: string; number: string }; Body: { amount?: unknown; currency?: unknown } | null };

  async function attemptOf({ id, number }: Route['Params']): Promise<Attempt | undefined> {
    const order = await orders.find(id);
    return order && orders.attempt(order, Number(number));
  }

  /** However often the page asks, it gets the one key, which is kept before it is given out. */
  async function keyOf({ keyFile }: Attempt): Promise<string> {
    const known = await keptText(keyFile);
    if (known !== undefined) return known;
    const answer = await fetch(`${url}/api/server-generated/generate-key`, { headers: credential });
    if (!answer.ok) throw new Error(`generate-key answered ${answer.status}`);
    return keepOnce(keyFile, (await answer.json()) as string);
  }

  app.get<Route>('/orders/:id/payments/:number/api/server-generated/generate-key', async (request, reply) => {
    const attempt = await attemptOf(request.params);
    if (!attempt) return refuse(reply, 404, 'Not Found', 'There is no such attempt. Read the order again.');
    try {
      return reply.type('application/json').send(JSON.stringify(await keyOf(attempt)));
    } catch {
      return refuse(reply, 503, 'Service Unavailable', 'No key can be had now. Nothing was charged: try again.');
    }
  });

  app.post<Route>('/orders/:id/payments/:number/api/payment', async (request, reply) => {
    const attempt = await attemptOf(request.params);
    if (!attempt) return refuse(reply, 404, 'Not Found', 'There is no such attempt. Read the order again.');
    const key = await keptText(attempt.keyFile);
    const { amount, currency } = request.body ?? {};
    const { price } = attempt.order;
    if (key === undefined || request.headers['idempotency-key'] !== key) {
      return refuse(reply, 400, 'Bad Request', 'This is not the key of the attempt. Read the order again.');
    }
    if (amount !== price.amount || currency !== price.currency) {
      return refuse(reply, 400, 'Bad Request', 'This is not the price of the order. Read the order again.');
    }
    const prefer = request.headers.prefer;
    try {
      const answer = await fetch(`${url}/api/payment`, {
        method: 'POST',
        headers: {
          ...credential,
          'content-type': 'application/json',
          'idempotency-key': key,
          ...(typeof prefer === 'string' && { prefer }),
        },
        body: JSON.stringify(price),
        signal: AbortSignal.timeout(PAYMENT_MS),
      });
      const text = await answer.text();
      const outcome = outcomeIn(answer.status, text);
      if (outcome) await orders.end(attempt, outcome);
      for (const name of PASSED_ON) {
        const value = answer.headers.get(name);
        if (value !== null) reply.header(name, value);
      }
      return reply.code(answer.status).send(text);
    } catch {
      // It may have arrived. The client in the page repeats it with the same key.
      return refuse(reply, 504, 'Gateway Timeout', 'The outcome of the payment is not known yet.');
    }
  });
}

/** The body of Idempay's own errors: the client reads it. */
const refuse = (reply: FastifyReply, status: number, error: string, message: string) =>
  reply.code(status).send({ status, error, message });

const DECLINED = 'Payment declined: ';

function outcomeIn(status: number, text: string): Outcome | undefined {
  const [transactionId] = /TXN\d+/.exec(text) ?? [];
  if (status === 200 && transactionId !== undefined) return { state: 'paid', transactionId };
  if (status !== 402) return undefined;
  const { message } = JSON.parse(text) as { message: string };
  return message.startsWith(DECLINED) ? { state: 'declined', reason: message.slice(DECLINED.length) } : undefined;
}
