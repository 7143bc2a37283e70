import type { FastifyReply } from 'fastify';

/** Answers with a JSON document that no cache may store. */
export function sendJson(reply: FastifyReply, json: string): void {
  reply.header('content-type', 'application/json; charset=utf-8').header('cache-control', 'no-store').send(json);
}
