import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { RequestLimit } from '../../limits/request-limit.js';
import { publicErrors } from '../errors/catalogue.js';

/**
 * Refuses a request beyond its client's limit (rule A6), before its body is read and before any store is asked. After
 * `checkCredentials`, which names the client. Without `limit` there is none.
 */
export function limitRequests(app: FastifyInstance, limit: RequestLimit | undefined): void {
  if (!limit) return;
  const perMinute = String(limit.perMinute);
  app.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.config.neverLimited) {
      done();
      return;
    }
    const { allowed, remaining, resetSeconds } = limit.take(clientOf(request));
    reply
      .header('ratelimit-limit', perMinute)
      .header('ratelimit-remaining', String(remaining))
      .header('ratelimit-reset', String(resetSeconds));
    done(allowed ? undefined : publicErrors.tooManyRequests(limit.perMinute, resetSeconds));
  });
}

/** The client that a request counts for: its credentials name it, else its address does. */
export function clientOf({ caller, address }: FastifyRequest): string {
  return caller?.client ?? `address:${networkOf(address)}`;
}

/** An IPv4 address, or the /64 of an IPv6 address: a subscriber has at least that many. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [whole = ''] = address.toLowerCase().split('%');
  const mapped = /^::ffff:([\d.]+)$/.exec(whole)?.[1];
  if (mapped) return mapped;
  const [head = '', tail] = whole.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(zeros).fill('0'), ...after];
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
