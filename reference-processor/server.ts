import { setTimeout as delay } from 'node:timers/promises';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  fastify,
  LogController,
} from 'fastify';
import { type Static, Type } from 'typebox';
import { type Behaviour, changeBehaviour } from './behaviour.js';
import { type Charge, type ChargeLine, ChargeNotLogged } from './charge-log.js';
import type { ChargeResult, Charges } from './charges.js';

/** Longer than any sensible reference. */
const MAX_REFERENCE_LENGTH = 255;
/** Percent-encoded, every character of a path may take three. */
const MAX_PARAMETER_LENGTH = 3 * MAX_REFERENCE_LENGTH;

/** Visible ASCII: what a header and a path carry alike. */
const Reference = Type.String({ pattern: `^[!-~]{1,${MAX_REFERENCE_LENGTH}}$` });
const ChargeHeaders = Type.Object({ 'idempotency-key': Reference });
const ChargePath = Type.Object({ reference: Reference });
const ChargeBody = Type.Object({
  transactionId: Type.String({ minLength: 1, maxLength: 64 }),
  amount: Type.String({ pattern: '^[0-9]{1,18}([.][0-9]{1,18})?$' }),
  currency: Type.String({ pattern: '^[A-Z]{3}$' }),
  order: Type.Optional(Type.String()),
  source: Type.Optional(Type.String()),
  description: Type.Optional(Type.String()),
  metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
});

const AT_WORK = { error: 'a charge with this reference is still at work' };

/** The HTTP side of the processor, not yet listening. `random` decides whose reply is lost. */
export function createServer(
  charges: Charges,
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
    ajv: { customOptions: { coerceTypes: false } },
  });
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers({ 'moves-money': 'no', 'idempay-contract': '2' });
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

  app.register(async (scope) => {
    scope.addHook('onRequest', async (_request, reply) => {
      const status = behaviour.refuseWith;
      if (status !== null) return reply.code(status).send({ error: `refused with ${status}` });
    });
    const routes = scope.withTypeProvider<TypeBoxTypeProvider>();

    routes.post('/charges', { schema: { headers: ChargeHeaders, body: ChargeBody } }, async (request, reply) => {
      // A charge keeps the behaviour that was set when it arrived.
      const { replyLatencyMs, lostReplyRate } = behaviour;
      const reference = request.headers['idempotency-key'];
      const result = await charges.charge({ reference, ...chargeOf(request.body) }, behaviour);

      if (result.kind === 'new') {
        if (replyLatencyMs > 0) await delay(replyLatencyMs);
        if (random() < lostReplyRate) return cutConnection(reply);
      }
      return answer(reply, reference, result);
    });

    routes.get('/charges/:reference', { schema: { params: ChargePath } }, (request, reply) => {
      const { reference } = request.params;
      const found = charges.lookUp(reference);
      if (found === 'at work') return reply.code(409).send({ ...AT_WORK, reference });
      if (found === 'no record') return reply.code(404).send({ error: 'no record of this reference', reference });
      return reply.send(outcomeBody(found));
    });
  });
  return app;
}

/** Members of the contract only: others are passed over. */
function chargeOf(body: Static<typeof ChargeBody>): Omit<Charge, 'reference'> {
  const { transactionId, amount, currency, order, source, description, metadata } = body;
  return { transactionId, amount, currency, order, source, description, metadata };
}

function answer(reply: FastifyReply, reference: string, result: ChargeResult): FastifyReply {
  switch (result.kind) {
    case 'new':
    case 'repeat':
      return reply.code(result.outcome.status === 'succeeded' ? 201 : 402).send(outcomeBody(result.outcome));
    case 'at work':
      return reply.code(409).send({ ...AT_WORK, reference });
    case 'another charge':
      return reply.code(422).send({ error: 'this reference belongs to another charge', reference });
    case 'failed':
      return reply.code(500).send({ error: 'the processor failed', reference });
  }
}

/** Says which charge it is about, so that a copy of another reply is recognised. */
function outcomeBody(line: ChargeLine): object {
  const { reference, transactionId, amount, currency } = line;
  const about = { reference, transactionId, amount, currency };
  return line.status === 'succeeded'
    ? { status: line.status, id: line.id, ...about }
    : { status: line.status, reason: line.reason, ...about };
}

function cutConnection(reply: FastifyReply): FastifyReply {
  reply.hijack();
  reply.raw.destroy();
  return reply;
}
