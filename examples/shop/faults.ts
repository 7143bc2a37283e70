import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';

/**
 * Fastify would answer with the status of any error that has one. The errors of the client have the status that Idempay, or a proxy, gave the
 * shop: a 401 is about the shop's key, and a 410 as the answer to a webhook would stop the endpoint.
 */
export const answerFault = (text: string) => (fault: FastifyError, _: FastifyRequest, reply: FastifyReply) => {
  // The request itself is wrong, such as a field of a form.
  if (fault.code?.startsWith('FST_ERR_')) return reply.send(fault);
  console.error(fault);
  return reply.code(503).send(text);
};
