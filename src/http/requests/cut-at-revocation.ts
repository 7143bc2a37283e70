import type { FastifyReply } from 'fastify';
import { whenClientIsGone } from './client-gone.js';

/** After its credentials were revoked or expired, an answer that goes on ends within this time plus the time of the check. */
const ACCESS_CHECK_MS = 4_000;

/**
 * For an answer that goes on for as long as its client reads: it is cut once the credentials of its request are no longer good for its
 * route. Its connection ends in the middle of the body, so that the client sees it as incomplete.
 */
export function cutAtRevocation(reply: FastifyReply): void {
  const { request, server, raw } = reply;
  const { scopes } = request.routeOptions.config;
  // No caller: nobody was asked for credentials.
  if (!request.caller || scopes === undefined || scopes === 'open') return;
  const checking = setInterval(() => {
    server.refusalNow(request, scopes).then(
      (refusal) => refusal && raw.destroy(),
      () => raw.destroy(),
    );
  }, ACCESS_CHECK_MS).unref();
  const stop = () => clearInterval(checking);
  raw.once('close', stop);
  whenClientIsGone(reply, stop);
}
