import { isLoopback } from '../platform/loopback.js';
import type { Settings } from '../platform/settings.js';
import { isDiscoverable, isSafeUrl, type TokenSettings } from './issuer.js';

/** The settings that decide if clients need credentials (rule A1). */
export type AccessSettings =
  /** No. `loopbackOnly` (without AUTH=none): only requests to a name of this machine, because a web page can make a browser send others. */
  | { readonly kind: 'none'; readonly loopbackOnly: boolean }
  /** Clients with credentials. */
  | { readonly kind: 'required'; readonly apiKeysFile: string | undefined; readonly tokens: TokenSettings | undefined };

const TOKEN_NAMES = ['JWT_ISSUER', 'JWT_AUDIENCE', 'JWT_JWKS_URL'] as const;
const CREDENTIALS = ['API_KEYS_FILE', ...TOKEN_NAMES] as const;
const JWKS_URL_FORM = 'https://host/path (http on this machine only)';
const TOKEN_SETTINGS = ['JWT_ISSUER', 'JWT_AUDIENCE'] as const;
const HOW_TO_REQUIRE = 'AUTH=required with API_KEYS_FILE or with JWT_ISSUER and JWT_AUDIENCE';
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
  const jwksUrl = settings.parsed('JWT_JWKS_URL', (text) => (isSafeUrl(text) ? text : undefined), JWKS_URL_FORM);
  const missing = TOKEN_SETTINGS.filter((name) => !settings.has(name));
  if (missing.length > 0 && TOKEN_NAMES.some((name) => settings.has(name))) {
    settings.problem(`${missing.join(' and ')} must be set too: tokens need ${TOKEN_SETTINGS.join(' and ')}`);
  }
  if (issuer === undefined || audience === undefined) return undefined;
  if (!settings.has('JWT_JWKS_URL') && !isDiscoverable(issuer)) {
    settings.problem(
      `JWT_ISSUER ${withoutUser(issuer)} is no URL to ask for its keys (https, without query and fragment): set JWT_JWKS_URL too`,
    );
  }
  return { issuer, audience, jwksUrl };
}

/** A user may have a password, which no log may have. */
function withoutUser(issuer: string): string {
  return issuer.replace(/^([a-z]+:\/\/)?.*@/is, '$1');
}
