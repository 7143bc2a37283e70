import { Redis, type RedisOptions } from 'ioredis';
import { pageAt } from '../../../platform/manual.js';
import { certificateAdvice, isCertificateFault } from '../../../platform/tls-fault.js';
import { CannotOpen } from '../../shared/deployment.js';
import { messageOf, withoutCommand } from './fault.js';
import { infoOf, type RedisInfo } from './info.js';
import { type RedisLocation, type RedisNode, tlsOf } from './url.js';

/** Shorter than for serving: a start waits for it. */
const CONNECT_TIMEOUT_MS = 1_500;
const COMMAND_TIMEOUT_MS = 900;

/** Advice about `REDIS_URL` for a server's refusal. A refusal that is not here may be over soon (LOADING, BUSY). */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /^NOAUTH|^WRONGPASS|invalid password|'auth' command/,
    'Set the user and the password that the server knows, percent-encoded: redis://user:password@host',
  ],
  [/DB index/, 'End REDIS_URL with a database that the server has; 0 is always there'],
  [/^NOPERM/, `Give the user of REDIS_URL the rights that ${pageAt('docs/operations/deployment.md')} lists`],
  [/^DENIED/, 'The server is in protected mode: give it a password, and set that in REDIS_URL'],
];

/** The change that `REDIS_URL` needs if a server refuses so; undefined if the refusal may be over soon. */
export function adviceFor(refusal: string): string | undefined {
  return ADVICE.find(([words]) => words.test(refusal))?.[1];
}

/** `REDIS_URL` cannot be right; the message says why and what to do. */
export function wrongRedis({ host, port }: RedisNode, problem: string, advice: string): CannotOpen {
  return new CannotOpen(
    `REDIS_URL: Redis at ${host}:${port} cannot be used: ${problem.replace(/\.$/, '')}. ${advice}.`,
  );
}

/** A server of `REDIS_URL` that the service's user is logged in to, with its database selected. */
export interface VisitedRedis {
  readonly server: Redis;
  readonly node: RedisNode;
  readonly location: RedisLocation;
  readonly info: RedisInfo;
  /** It asks for no password, although `REDIS_URL` has one. */
  readonly ignoresPassword: boolean;
}

/**
 * Logs in to one server, as the service will, and calls `look`. Resolves to undefined when the server is down or busy, which
 * may pass; throws CannotOpen for a fault that only another `REDIS_URL` can fix.
 */
export async function visit<T>(
  node: RedisNode,
  location: RedisLocation,
  look: (visited: VisitedRedis) => Promise<T>,
): Promise<T | undefined> {
  const asked = await askServer(connectionTo(node, location), async (server) =>
    look({ server, node, location, ...(await enter(server, node, location)) }),
  );
  if ('answer' in asked) return asked.answer;
  const refusal = await refusalBehind(asked.error, node, location);
  if (refusal) throw refusal;
  return undefined;
}

type Transport = Pick<RedisLocation, 'tls' | 'ca'>;

/** For one connection that asks something and is not kept. */
export function connectionTo(node: RedisNode, location: Transport): RedisOptions {
  const tls = tlsOf(location);
  return {
    ...node,
    ...(tls && { tls }),
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
  };
}

/** The answer of a server over a new connection, or the fault. Does not log in. */
export async function askServer<T>(
  options: RedisOptions,
  ask: (server: Redis) => Promise<T>,
): Promise<{ readonly answer: T } | { readonly error: unknown }> {
  const server = new Redis(options);
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

/** The refusal that only another `REDIS_URL` can fix; undefined for a server that is down or busy. */
export async function refusalBehind(
  error: unknown,
  node: RedisNode,
  { tls }: Transport,
): Promise<CannotOpen | undefined> {
  if (error instanceof CannotOpen) return error;
  const advice = adviceFor(messageOf(error));
  if (advice) return wrongRedis(node, messageOf(error), advice);
  if (isCertificateFault(error))
    return wrongRedis(node, messageOf(error), certificateAdvice('REDIS_CA_FILE').replace(/\.$/, ''));
  if (!isUnanswered(error) || !(await answersOver(node, !tls))) return undefined;
  return tls
    ? wrongRedis(node, 'it does not speak TLS', 'Write redis:// instead of rediss://, or turn TLS on at the server')
    : wrongRedis(node, 'it speaks TLS only', 'Write rediss:// instead of redis://');
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
  const asked = await askServer({ ...connectionTo(node, { tls: false }), ...transport }, (server) => server.ping());
  return 'answer' in asked || (asked.error as Error).name === 'ReplyError';
}

/** Throws CannotOpen when the server is of another topology than the URL, and the server's own refusals. */
async function enter(
  server: Redis,
  node: RedisNode,
  location: RedisLocation,
): Promise<Pick<VisitedRedis, 'info' | 'ignoresPassword'>> {
  const ignoresPassword = await logIn(server, location);
  const info = await infoOf(server);
  // Valkey has a name of its own for it.
  const mode = info.get('redis_mode') ?? info.get('server_mode');
  const isCluster = location.topology === 'cluster';
  if (mode === 'sentinel') {
    throw wrongRedis(node, 'it is a Sentinel', 'Write redis+sentinel://host:26379/master');
  }
  if (mode === 'cluster' && !isCluster) {
    throw wrongRedis(node, 'it is a node of a Cluster', 'Write redis+cluster://host:6379,host:6379');
  }
  if (mode === 'standalone' && isCluster) {
    throw wrongRedis(node, 'it is not a node of a Cluster', 'Write redis://host:6379, or turn cluster-enabled on');
  }
  if (!isCluster && location.database !== 0) await server.select(location.database);
  return { info, ignoresPassword };
}

/**
 * True if the server asks for no password, which is often set at the clients first, so that the server can require it without an outage.
 */
async function logIn(server: Redis, { username, password }: RedisLocation): Promise<boolean> {
  if (username === undefined && password === undefined) return false;
  try {
    await (username === undefined ? server.auth(password ?? '') : server.auth(username, password ?? ''));
    return false;
  } catch (error) {
    if (!/without any password configured|no password is set/.test(messageOf(error))) throw error;
    return true;
  }
}
