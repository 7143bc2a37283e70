import { createRemoteJWKSet, errors, type JWK, type JWTPayload, jwtVerify } from 'jose';
import { codePointsIn, isPrinted } from '../platform/printed-text.js';
import type { AuthenticationResult } from './caller.js';
import { isScope, type Scope } from './scopes.js';

export interface TokenSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly jwksUrl: string;
}

export interface TokenCheck {
  check(token: string): Promise<AuthenticationResult>;
  close(): void;
}

/** Asymmetric only. With a symmetric algorithm the public key could be used to sign (decisions A3). */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** Without `application/` and in lower case (RFC 7515 4.1.9). Tokens for other purposes, as ID tokens of logout, name themselves (RFC 8725 3.11). */
const TYPES = ['jwt', 'at+jwt'];
/** Between the clock of the issuer and ours. */
const CLOCK_TOLERANCE_SECONDS = 5;
const JWKS_TIMEOUT_MS = 5_000;
/** A token with an unknown key id makes us fetch the key set again, at most this often: else a client could make us call the issuer with each request. */
const JWKS_COOLDOWN_MS = 10_000;
/** A key that the issuer withdrew is refused after about this time. */
const JWKS_REFRESH_MS = 60_000;
/** OpenID Connect has this limit for `sub`; RFC 7519 has none. */
const MAX_CLIENT_CODE_POINTS = 255;

/**
 * Checks JSON Web Tokens against the key set of their issuer (RFC 7519, RFC 9068). The set is fetched when the first token
 * comes, and from then on in the background: a key that is known stays good while the issuer is away.
 */
export function createTokenCheck({ issuer, audience, jwksUrl }: TokenSettings): TokenCheck {
  const keySet = keySetAt(jwksUrl);
  const refreshing = setInterval(() => {
    if (keySet.jwks()) keySet.reload().catch(() => {});
  }, JWKS_REFRESH_MS).unref();

  async function check(token: string): Promise<AuthenticationResult> {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, keySet, {
        issuer,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        requiredClaims: ['exp'],
      });
      const client = clientOf(payload);
      if (client === undefined || !isAccessType(protectedHeader.typ)) return { state: 'invalid' };
      return { state: 'authenticated', caller: { client, scopes: scopesOf(payload) } };
    } catch (error) {
      return { state: isAboutToken(error) ? 'invalid' : 'unavailable' };
    }
  }

  return { check, close: () => clearInterval(refreshing) };
}

/** The issuer's keys as they are now. Rejects where they cannot be had. */
export async function fetchKeySet({ jwksUrl }: TokenSettings): Promise<readonly JWK[]> {
  const keySet = keySetAt(jwksUrl);
  await keySet.reload();
  return keySet.jwks()?.keys ?? [];
}

function keySetAt(jwksUrl: string) {
  return createRemoteJWKSet(new URL(jwksUrl), {
    timeoutDuration: JWKS_TIMEOUT_MS,
    cooldownDuration: JWKS_COOLDOWN_MS,
    cacheMaxAge: Number.POSITIVE_INFINITY,
  });
}

/** True: the token is invalid. False: the issuer's key set could not be fetched or read. */
function isAboutToken(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return false;
  // A plain JOSEError is a reply of the issuer that is not a key set.
  return error instanceof errors.JOSEError && error.code !== 'ERR_JOSE_GENERIC';
}

function isAccessType(type: unknown): boolean {
  if (type === undefined) return true;
  return typeof type === 'string' && TYPES.includes(type.toLowerCase().replace(/^application\//, ''));
}

/**
 * In a user's token `client_id` or `azp` names the application; otherwise `sub` names the client. A user may choose the name of an
 * application as a subject, so the two never make the same client. It is stored in each payment row, so a name that a store would
 * shorten or refuse is not accepted.
 */
function clientOf({ client_id, azp, sub }: JWTPayload): string | undefined {
  const application = [client_id, azp].find(isGiven);
  const name = application ?? sub;
  if (!isGiven(name) || !isName(name)) return undefined;
  return application === undefined ? `jwt-sub:${name}` : `jwt:${name}`;
}

function isGiven(id: unknown): id is string {
  return typeof id === 'string' && id !== '';
}

function isName(text: string): boolean {
  return isPrinted(text) && codePointsIn(text) <= MAX_CLIENT_CODE_POINTS;
}

/** One text separated by spaces (RFC 8693 4.2), or a list. Names of other services are left out. */
function scopesOf({ scope, scp }: JWTPayload): ReadonlySet<Scope> {
  const granted = scope ?? scp;
  const names = typeof granted === 'string' ? granted.split(' ') : Array.isArray(granted) ? granted : [];
  return new Set(names.filter(isScope));
}
