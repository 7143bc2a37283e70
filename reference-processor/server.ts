import { setTimeout as delay } from 'node:timers/promises';
import {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  fastify,
  LogController,
} from 'fastify';
import { type Behaviour, changeBehaviour } from './behaviour.js';
import { type Charge, ChargeNotLogged, isRefundLine, type LogLine, type RefundLine } from './charge-log.js';
import type { ChargeResult, Charges } from './charges.js';
import { pageUrl, registerPages } from './pages.js';
import type { RefundResult, Refunds } from './refunds.js';

/** Longer than any sensible reference. */
const MAX_REFERENCE_LENGTH = 255;
/** Percent-encoded, every character of a path may take three. */
const MAX_PARAMETER_LENGTH = 3 * MAX_REFERENCE_LENGTH;

const TEXT = { type: 'string' } as const;
/** Visible ASCII: what a header and a path carry alike. */
const REFERENCE = { ...TEXT, pattern: `^[!-~]{1,${MAX_REFERENCE_LENGTH}}$` };
const MONEY = {
  transactionId: { ...TEXT, minLength: 1, maxLength: 64 },
  amount: { ...TEXT, pattern: '^[0-9]{1,18}([.][0-9]{1,18})?$' },
  currency: { ...TEXT, pattern: '^[A-Z]{3}$' },
};
const KEY_HEADER = schemaOf({ 'idempotency-key': REFERENCE });
const CHARGE_PATH = schemaOf({ reference: REFERENCE });
const CHARGE_BODY = schemaOf(MONEY, {
  order: TEXT,
  source: TEXT,
  description: TEXT,
  metadata: { type: 'object', additionalProperties: TEXT },
  returnUrl: { ...TEXT, pattern: '^https?://[!-~]{1,1000}$' },
});
/** `id` is the charge's name, if the service knows it. It is not needed here. */
const ENDING_BODY = schemaOf(MONEY, { id: TEXT });
/** `id` is the charge's name, as in an ending. */
const REFUND_BODY = schemaOf({ charge: REFERENCE, ...MONEY }, { id: TEXT, reason: TEXT });
const REFUND_QUERY = schemaOf({ charge: REFERENCE }, { id: TEXT });

function schemaOf(required: object, optional: object = {}) {
  return { type: 'object', required: Object.keys(required), properties: { ...required, ...optional } };
}

/** The requests, as the schemas let them through. */
interface NamedByHeader {
  Headers: { readonly 'idempotency-key': string };
}
interface NamedByPath {
  Params: { readonly reference: string };
}
interface ChargeRequest extends NamedByHeader {
  Body: Omit<Charge, 'reference'>;
}
interface EndingRequest extends NamedByPath {
  Body: Pick<Charge, 'transactionId' | 'amount' | 'currency'>;
}
interface RefundRequest extends NamedByHeader {
  Body: EndingRequest['Body'] & { readonly charge: string; readonly reason?: string };
}
interface RefundLookUp extends NamedByPath {
  Querystring: { readonly charge: string };
}

const STATUSES = { succeeded: 201, declined: 402, pending: 202 } as const;
const AT_WORK = { error: 'a charge with this reference is still at work' };
const REFUND_AT_WORK = { error: 'this refund, or its charge, is still at work' };

/** The HTTP side of the processor, not yet listening. `random` decides whose reply is lost. */
export function createServer(
  { charges, refunds }: { readonly charges: Charges; readonly refunds: Refunds },
  behaviourAtStart: Behaviour,
  random: () => number,
  logger: FastifyBaseLogger,
): FastifyInstance {
  let behaviour = behaviourAtStart;
  const app = fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    // An amount sent as a number is refused, not turned into text: its digits may be lost already.
    ajv: { customOptions: { coerceTypes: false, validateSchema: false } },
  });
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers({ 'moves-money': 'no', 'idempay-contract': '3' });
  });
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    const status = error instanceof ChargeNotLogged ? 503 : (error.statusCode ?? 500);
    if (status >= 500) request.log.error({ err: error }, 'request failed');
    return reply.code(status).send({ error: error.message });
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'no such route' }));

  app.get('/behaviour', () => behaviour);
  app.patch('/behaviour', (request, reply) => {
    const result = changeBehaviour(behaviour, request.body);
    if ('problems' in result) return reply.code(400).send({ error: result.problems.join('; ') });
    behaviour = result.changed;
    return reply.send(behaviour);
  });

  app.register(async (scope) => registerPages(scope, charges, refunds));

  app.register(async (scope) => {
    scope.addHook('onRequest', async (_request, reply) => {
      const status = behaviour.refuseWith;
      if (status !== null) return reply.code(status).send({ error: `refused with ${status}` });
    });
    const isReplyLost = async ({ replyLatencyMs, lostReplyRate }: Behaviour) => {
      if (replyLatencyMs > 0) await delay(replyLatencyMs);
      return random() < lostReplyRate;
    };

    scope.post<ChargeRequest>(
      '/charges',
      { schema: { headers: KEY_HEADER, body: CHARGE_BODY } },
      async (request, reply) => {
        // A charge keeps the behaviour that was set when it arrived.
        const atArrival = behaviour;
        const reference = request.headers['idempotency-key'];
        const result = await charges.charge({ reference, ...chargeOf(request.body) }, atArrival);
        if (result.kind === 'new' && (await isReplyLost(atArrival))) return cutConnection(reply);
        return answer(reply, reference, result);
      },
    );

    const ending = { schema: { params: CHARGE_PATH, body: ENDING_BODY } };
    scope.post<EndingRequest>('/charges/:reference/ending', ending, async (request, reply) => {
      const atArrival = behaviour;
      const { endWith } = atArrival;
      const { reference } = request.params;
      if (endWith !== null) return reply.code(endWith).send({ error: `endings get ${endWith}`, reference });
      const { transactionId, amount, currency } = request.body;
      const result = await charges.end({ reference, transactionId, amount, currency });
      if (result.kind === 'new' && (await isReplyLost(atArrival))) return cutConnection(reply);
      if (result.kind === 'another charge') return answer(reply, reference, result);
      return reply.send(outcomeBody(result.outcome, reply));
    });

    scope.get<NamedByPath>('/charges/:reference', { schema: { params: CHARGE_PATH } }, async (request, reply) => {
      const { reference } = request.params;
      const found = await charges.lookUp(reference);
      if (found === 'at work') return reply.code(409).send({ ...AT_WORK, reference });
      if (found === 'no record') return reply.code(404).send({ error: 'no record of this reference', reference });
      return reply.send(outcomeBody(found, reply));
    });

    scope.post<RefundRequest>(
      '/refunds',
      { schema: { headers: KEY_HEADER, body: REFUND_BODY } },
      async (request, reply) => {
        const atArrival = behaviour;
        const reference = request.headers['idempotency-key'];
        const { charge, transactionId, amount, currency, reason: purpose } = request.body;
        const refund = { reference, charge, transactionId, amount, currency, purpose };
        const result = await refunds.refund(refund, atArrival);
        if (result.kind === 'new' && (await isReplyLost(atArrival))) return cutConnection(reply);
        return answer(reply, reference, result);
      },
    );

    const refundLookUp = { schema: { params: CHARGE_PATH, querystring: REFUND_QUERY } };
    scope.get<RefundLookUp>('/refunds/:reference', refundLookUp, async (request, reply) => {
      const { reference } = request.params;
      const found = await refunds.lookUp(reference, request.query.charge);
      if (found === 'at work') return reply.code(409).send({ ...REFUND_AT_WORK, reference });
      if (found === 'no record') return reply.code(404).send({ error: 'no record of this refund', reference });
      return reply.send(outcomeBody(found, reply));
    });
  });
  return app;
}

/** Members of the contract only: others are passed over. */
function chargeOf(body: ChargeRequest['Body']): ChargeRequest['Body'] {
  const { transactionId, amount, currency, order, source, description, metadata, returnUrl } = body;
  return { transactionId, amount, currency, order, source, description, metadata, returnUrl };
}

function answer(reply: FastifyReply, reference: string, result: ChargeResult | RefundResult): FastifyReply {
  switch (result.kind) {
    case 'new':
    case 'repeat':
      return reply.code(STATUSES[result.outcome.status]).send(outcomeBody(result.outcome, reply));
    case 'at work':
      return reply.code(409).send({ ...AT_WORK, reference });
    case 'another charge':
    case 'another refund':
      return reply.code(422).send({ error: `this reference belongs to ${result.kind}`, reference });
    case 'failed':
      return reply.code(500).send({ error: 'the processor failed', reference });
  }
}

/** Says which charge or refund it is about, so that a copy of another reply is recognised. */
function outcomeBody(line: LogLine | RefundLine, { request }: FastifyReply): object {
  const { reference, transactionId, amount, currency, id } = line;
  const charge = isRefundLine(line) ? { charge: line.charge } : {};
  const about = { reference, ...charge, transactionId, amount, currency };
  switch (line.status) {
    case 'succeeded':
      return { status: line.status, id, ...about };
    case 'declined':
      return { status: line.status, reason: line.reason, id, ...about };
    case 'pending':
      if (isRefundLine(line)) return { status: line.status, id, until: line.until, ...about };
      return { status: line.status, id, until: line.until, action: { url: pageUrl(request, line) }, ...about };
  }
}

function cutConnection(reply: FastifyReply): FastifyReply {
  reply.hijack();
  reply.raw.destroy();
  return reply;
}
