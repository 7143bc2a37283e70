import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { LogLine } from './charge-log.js';
import { type Charges, isDecision, type PendingLine } from './charges.js';
import type { Refunds } from './refunds.js';

/** The page loads nothing from another origin. The form may lead to any origin, because its answer sends the browser on to the shop. */
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
};

/** The payer's page, on this machine, at the port that the request came to. */
export function pageUrl({ socket }: FastifyRequest, { page }: Pick<PendingLine, 'page'>): string {
  return `http://${socket.localFamily === 'IPv6' ? '[::1]' : '127.0.0.1'}:${socket.localPort}/pages/${page}`;
}

/**
 * A bank's page, on which a payer confirms or refuses a charge that is pending, and the same for scripts, which know its reference. The page
 * sends the browser on to the shop. A refund that is pending has no page.
 */
export function registerPages(scope: FastifyInstance, charges: Charges, refunds: Refunds): void {
  // The body of a form without fields, and of scripts that send no JSON.
  scope.addContentTypeParser('*', (_request, payload, done) => {
    payload.resume();
    payload.on('end', () => done(null, undefined));
  });

  scope.get<{ Params: { page: string } }>('/pages/:page', (request, reply) => {
    const line = charges.ofPage(request.params.page);
    if (line === undefined) return noSuch(reply);
    return reply.headers(PAGE_HEADERS).send(pageOf(line, request.params.page));
  });

  scope.post<{ Params: { page: string; decision: string } }>('/pages/:page/:decision', async (request, reply) => {
    const { page, decision } = request.params;
    const line = charges.ofPage(page);
    if (line === undefined || !isDecision(decision)) return noSuch(reply);
    const outcome = await charges.decide(line.reference, decision);
    return reply.redirect(outcome?.returnUrl ?? `/pages/${page}`, 303);
  });

  scope.get('/pending', (request) => [
    ...charges.pending().map((line) => {
      const { reference, id, amount, currency, until } = line;
      return { reference, id, amount, currency, until, url: pageUrl(request, line) };
    }),
    ...refunds.pending().map(({ reference, charge, id, amount, currency, until }) => {
      return { reference, charge, id, amount, currency, until };
    }),
  ]);

  scope.post<{ Params: { reference: string; decision: string } }>(
    '/pending/:reference/:decision',
    async (request, reply) => {
      const { reference, decision } = request.params;
      const outcome = isDecision(decision)
        ? ((await refunds.decide(reference, decision)) ?? (await charges.decide(reference, decision)))
        : undefined;
      if (outcome === undefined) return noSuch(reply);
      return reply.send({ reference, status: outcome.status });
    },
  );
}

const noSuch = (reply: FastifyReply) => reply.code(404).send({ error: 'no such pending charge' });

/** The amount and currency have digits and letters only. */
function pageOf({ amount, currency, status, returnUrl = '' }: LogLine, page: string): string {
  const form = (decision: string, label: string) =>
    `<form method="post" action="/pages/${page}/${decision}"><button>${label}</button></form>`;
  const acts = [form('confirm', 'Confirm'), form('refuse', 'Refuse')].join('\n');
  const back = `<p>This payment has ${status}. <a href="${escaped(returnUrl)}">Back to the shop</a></p>`;
  return `<!doctype html>
<html lang="en">
<title>Confirm ${amount} ${currency}</title>
<style>body { font: 18px sans-serif; margin: 3em; } form { display: inline; } button { font: inherit; padding: 0.5em 1em; }</style>
<h1>The bank of the reference processor</h1>
<p>A shop asks for <strong>${amount} ${currency}</strong>. No money moves.</p>
${status === 'pending' ? acts : back}
</html>
`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
