import { isIPv4 } from 'node:net';
import type { Settings } from '../platform/settings.js';
import type { TokenSettings } from './tokens.js';

/** Whether clients need credentials (decisions A1). */
export type AccessSettings =
  /** No. `loopbackOnly` (without AUTH=none): only requests to a name of this machine, because a web page can make a browser send others. */
  | { readonly kind: 'none'; readonly loopbackOnly: boolean }
  /** Clients with credentials. */
  | { readonly kind: 'required'; readonly apiKeysFile: string | undefined; readonly tokens: TokenSettings | undefined };

const CREDENTIALS = ['API_KEYS_FILE', 'JWT_ISSUER', 'JWT_AUDIENCE', 'JWT_JWKS_URL'] as const;
const TOKEN_SETTINGS = ['JWT_ISSUER', 'JWT_AUDIENCE', 'JWT_JWKS_URL'] as const;
const HOW_TO_REQUIRE = 'AUTH=required with API_KEYS_FILE or with JWT_ISSUER, JWT_AUDIENCE and JWT_JWKS_URL';
export const HOW_TO_SET_AUTH = `set ${HOW_TO_REQUIRE}. AUTH=none serves everybody who reaches the port`;

export function readAccess(settings: Settings, host: string): AccessSettings {
  const auth = settings.has('AUTH') ? settings.choice('AUTH', 'none', ['none', 'required'] as const) : undefined;
  const apiKeysFile = settings.optional('API_KEYS_FILE');
  const tokens = readTokens(settings);
  if (auth === 'required') {
    if (apiKeysFile === undefined && tokens === undefined)
      settings.problem(`AUTH=required needs credentials: set ${HOW_TO_REQUIRE}`);
    return { kind: 'required', apiKeysFile, tokens };
  }
  for (const name of CREDENTIALS) {
    if (settings.has(name))
      settings.problem(`${name} is set but nobody is asked for credentials: set AUTH=required, or remove it`);
  }
  if (auth === undefined && !isLoopback(host)) {
    settings.problem(`HOST ${host} can be reached by others: ${HOW_TO_SET_AUTH}`);
  }
  return { kind: 'none', loopbackOnly: auth === undefined };
}

function readTokens(settings: Settings): TokenSettings | undefined {
  const issuer = settings.optional('JWT_ISSUER');
  const audience = settings.optional('JWT_AUDIENCE');
  const jwksUrl = settings.parsed('JWT_JWKS_URL', readJwksUrl, 'https://host/path (http on this machine only)');
  const missing = TOKEN_SETTINGS.filter((name) => !settings.has(name));
  if (missing.length > 0 && missing.length < TOKEN_SETTINGS.length) {
    settings.problem(`${missing.join(' and ')} must be set too: tokens need ${TOKEN_SETTINGS.join(', ')}`);
  }
  return issuer !== undefined && audience !== undefined && jwksUrl !== undefined
    ? { issuer, audience, jwksUrl }
    : undefined;
}

/** https, or http on this machine: over plain HTTP an attacker on the network could replace the keys. */
function readJwksUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || `${url.username}${url.password}` !== '') return undefined;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)) ? text : undefined;
}

/** Whether the name or address, in brackets or not, always means this machine (RFC 6761 6.3, RFC 1122 3.2.1.3). */
export function isLoopback(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || isLoopbackAddress(name);
}

function isLoopbackAddress(name: string): boolean {
  return isIPv4(name) && name.startsWith('127.');
}
