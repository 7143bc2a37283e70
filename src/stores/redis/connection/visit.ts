import { Redis, type RedisOptions } from 'ioredis';
import { CannotOpen } from '../../shared/deployment.js';
import { CERTIFICATE_ADVICE, isCertificateFault } from '../../shared/tls-fault.js';
import { messageOf, withoutCommand } from './fault.js';
import type { RedisNode } from './url.js';

/** Shorter than for serving: a start waits for it. */
const CONNECT_TIMEOUT_MS = 1_500;
const COMMAND_TIMEOUT_MS = 900;

/** What a server's refusal says about `REDIS_URL`. A refusal that is not here may be over soon (LOADING, BUSY). */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /^NOAUTH|^WRONGPASS|invalid password|'auth' command/,
    'Set the user and the password that the server knows, percent-encoded: redis://user:password@host',
  ],
  [/DB index/, 'End REDIS_URL with a database that the server has; 0 is always there'],
  [/^NOPERM/, 'Give the user of REDIS_URL the rights that docs/operations/deployment.md lists'],
  [/^DENIED/, 'The server is in protected mode: give it a password, and set that in REDIS_URL'],
];

/** `REDIS_URL` cannot be right; the message says why and what to do. */
export function wrongRedis({ host, port }: RedisNode, problem: string, advice: string): CannotOpen {
  return new CannotOpen(`REDIS_URL: Redis at ${host}:${port} cannot be used: ${problem}. ${advice}.`);
}

/**
 * Connects to one server, without logging in, and calls `ask`. Resolves to undefined when the server is away or busy, which
 * may pass; throws CannotOpen for a fault that only another `REDIS_URL` can fix.
 */
export async function visit<T>(
  node: RedisNode,
  tls: boolean,
  ask: (server: Redis) => Promise<T>,
): Promise<T | undefined> {
  const fault = await attempt(node, tls ? { tls: {} } : {}, ask);
  if ('answer' in fault) return fault.answer;
  const { error } = fault;
  if (error instanceof CannotOpen) throw error;
  const advice = ADVICE.find(([refusal]) => refusal.test(messageOf(error)))?.[1];
  if (advice) throw wrongRedis(node, messageOf(error), advice);
  if (isCertificateFault(error)) throw wrongRedis(node, messageOf(error), CERTIFICATE_ADVICE.replace(/\.$/, ''));
  if (isUnanswered(error) && (await answersOver(node, !tls))) {
    throw tls
      ? wrongRedis(node, 'it does not speak TLS', 'Write redis:// instead of rediss://, or turn TLS on at the server')
      : wrongRedis(node, 'it speaks TLS only', 'Write rediss:// instead of redis://');
  }
  return undefined;
}

async function attempt<T>(
  node: RedisNode,
  transport: RedisOptions,
  ask: (server: Redis) => Promise<T>,
): Promise<{ readonly answer: T } | { readonly error: unknown }> {
  const server = new Redis({
    ...node,
    ...transport,
    lazyConnect: true,
    retryStrategy: () => null,
    enableReadyCheck: false,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: COMMAND_TIMEOUT_MS,
    disableClientInfo: true,
    // HELLO would have to log in by itself.
    protocol: 2,
  });
  // `connect` itself says only that the connection was closed.
  let reason: Error | undefined;
  server.on('error', (error: Error) => {
    reason ??= error;
  });
  try {
    await server.connect();
    return { answer: await ask(server) };
  } catch (error) {
    if (error instanceof CannotOpen) return { error };
    // Our adapters wrap a refusal; the original error is its cause.
    return { error: withoutCommand(reason ?? (error as Error).cause ?? error) };
  } finally {
    server.disconnect();
  }
}

/** The server accepted the connection, and then closed it or answered nothing in the Redis protocol. */
function isUnanswered(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === undefined
    ? !/^[A-Z]+ /.test(messageOf(error))
    : /^(ECONNRESET|ETIMEDOUT|EPROTO|EPIPE|ERR_SSL)/.test(String(code));
}

/** Any answer counts, also a refusal. Nothing secret is sent, so the certificate is not checked. */
async function answersOver(node: RedisNode, tls: boolean): Promise<boolean> {
  const transport = tls ? { tls: { rejectUnauthorized: false } } : {};
  const asked = await attempt(node, transport, (server) => server.ping());
  return 'answer' in asked || (asked.error as Error).name === 'ReplyError';
}
