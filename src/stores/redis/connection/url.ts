import { isDeepStrictEqual } from 'node:util';
import { isPercentEncoded } from '../../../platform/percent-encoding.js';

/** The location of Redis, from `REDIS_URL`. The documented forms are in `docs/operations/deployment.md`. */
export type RedisLocation =
  | ({ readonly topology: 'standalone'; readonly node: RedisNode; readonly database: number } & RedisAccess)
  | ({
      readonly topology: 'sentinel';
      readonly sentinels: readonly RedisNode[];
      readonly master: string;
      readonly database: number;
    } & RedisAccess)
  | ({ readonly topology: 'cluster'; readonly nodes: readonly RedisNode[] } & RedisAccess);

export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

interface RedisAccess {
  readonly tls: boolean;
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** The certificates (PEM) of the authorities that the server is trusted by. Those that Node.js brings along if it is undefined. */
  readonly ca?: string | undefined;
}

/** The expected form, for the error message. */
export const REDIS_URL_FORMS =
  'redis://host:6379/0, redis+sentinel://host:26379,host:26379/master/0 or redis+cluster://host:6379,host:6379 (rediss for TLS), with user:password@ before the hosts';

const FORM = /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^@/]*)@)?([^/?#]+)(?:\/([^?#]*))?$/;
const DEFAULT_PORT = { standalone: 6379, cluster: 6379, sentinel: 26379 } as const;

/**
 * Reads one of
 * `redis://[user:password@]host[:port][/database]`,
 * `redis+sentinel://[user:password@]host[:port][,host...]/master[/database]`,
 * `redis+cluster://[user:password@]host[:port][,host...]`,
 * each with `rediss` for TLS. Undefined when it is none of them.
 */
export function readRedisUrl(text: string): RedisLocation | undefined {
  const match = FORM.exec(text);
  if (!match || !isPercentEncoded(text)) return undefined;
  const [, scheme, kind, credentials, hosts = '', path = ''] = match;
  const topology = (kind ?? 'standalone') as RedisLocation['topology'];
  const nodes = hosts.split(',').map((host) => readNode(host, DEFAULT_PORT[topology]));
  const access = { tls: scheme === 'rediss', ...readCredentials(credentials) };
  const [node] = nodes;
  if (!node || !nodes.every((each) => each !== undefined)) return undefined;

  const segments = path === '' ? [] : path.split('/');
  switch (topology) {
    case 'standalone': {
      const database = readDatabase(segments[0]);
      if (nodes.length > 1 || segments.length > 1 || database === undefined) return undefined;
      return { topology, node, database, ...access };
    }
    case 'sentinel': {
      const [master, databaseText] = segments;
      const database = readDatabase(databaseText);
      if (!master || segments.length > 2 || database === undefined) return undefined;
      return { topology, sentinels: nodes, master: decodeURIComponent(master), database, ...access };
    }
    case 'cluster':
      return segments.length > 0 ? undefined : { topology, nodes, ...access };
  }
}

/** Options of a connection with TLS; undefined if it has none. */
export function tlsOf({ tls, ca }: Pick<RedisAccess, 'tls' | 'ca'>): { ca?: string } | undefined {
  return tls ? (ca === undefined ? {} : { ca }) : undefined;
}

/** The password and the authorities of another location; undefined if anything else differs. */
export function renewedLocation(
  present: RedisLocation,
  found: RedisLocation,
): Pick<RedisAccess, 'password' | 'ca'> | undefined {
  const { password, ca } = found;
  return isDeepStrictEqual({ ...present, password, ca }, { ...found, password, ca }) ? { password, ca } : undefined;
}

/** The URL without user and password, for logs. */
export function redisName(location: RedisLocation): string {
  const scheme = location.tls ? 'rediss' : 'redis';
  const hosts = (nodes: readonly RedisNode[]) =>
    nodes.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
  switch (location.topology) {
    case 'standalone':
      return `${scheme}://${hosts([location.node])}/${location.database}`;
    case 'sentinel':
      return `${scheme}+sentinel://${hosts(location.sentinels)}/${location.master}/${location.database}`;
    case 'cluster':
      return `${scheme}+cluster://${hosts(location.nodes)}`;
  }
}

function readNode(text: string, defaultPort: number): RedisNode | undefined {
  const match = /^(\[[0-9a-fA-F:]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(text);
  if (!match?.[1]) return undefined;
  const port = match[2] === undefined ? defaultPort : Number(match[2]);
  if (port < 1 || port > 65_535) return undefined;
  return { host: match[1].replace(/^\[|\]$/g, ''), port };
}

function readCredentials(text: string | undefined): Pick<RedisAccess, 'username' | 'password'> {
  if (!text) return { username: undefined, password: undefined };
  const separator = text.indexOf(':');
  const [username, password] = separator < 0 ? [text, ''] : [text.slice(0, separator), text.slice(separator + 1)];
  return { username: decodeURIComponent(username) || undefined, password: decodeURIComponent(password) || undefined };
}

function readDatabase(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return 0;
  return /^\d{1,4}$/.test(text) ? Number(text) : undefined;
}
