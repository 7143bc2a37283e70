import { errors, type JWTPayload, jwtVerify } from 'jose';
import type { Clock } from '../platform/clock.js';
import type { AccessLog } from './access-log.js';
import type { AuthenticationResult } from './caller.js';
import { isTokenClientName } from './client-name.js';
import type { TokenSettings } from './issuer.js';
import { IssuerKeys } from './issuer-keys.js';
import { isScope, type Scope } from './scopes.js';

export interface TokenCheck {
  check(token: string): Promise<AuthenticationResult>;
  close(): void;
}

/** Asymmetric only. With a symmetric algorithm the public key could be used to sign (rule A3). */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** Without `application/` and in lower case (RFC 7515 4.1.9). Tokens for other purposes, as ID tokens of logout, name themselves (RFC 8725 3.11). */
const TYPES = ['jwt', 'at+jwt'];
/** Between the clock of the issuer and ours. */
const CLOCK_TOLERANCE_SECONDS = 5;

/** Checks JSON Web Tokens against the key set of their issuer (RFC 7519, RFC 9068). */
export function createTokenCheck(settings: TokenSettings, clock: Clock, log: AccessLog): TokenCheck {
  const { issuer, audience } = settings;
  const keys = new IssuerKeys(settings, clock, log);

  async function check(token: string): Promise<AuthenticationResult> {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, keys.keyFor, {
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
      // Any other fault is one of the issuer or its keys, and is logged there.
      return { state: error instanceof errors.JOSEError ? 'invalid' : 'unavailable' };
    }
  }

  return { check, close: () => keys.close() };
}

function isAccessType(type: unknown): boolean {
  if (type === undefined) return true;
  return typeof type === 'string' && TYPES.includes(type.toLowerCase().replace(/^application\//, ''));
}

/**
 * In a user's token `client_id` or `azp` names the application; otherwise `sub` names the client. A user may choose the name of an
 * application as a subject, so the two never make the same client.
 */
function clientOf({ client_id, azp, sub }: JWTPayload): string | undefined {
  const application = [client_id, azp].find(isGiven);
  const name = application ?? sub;
  if (!isGiven(name) || !isTokenClientName(name)) return undefined;
  return application === undefined ? `jwt-sub:${name}` : `jwt:${name}`;
}

function isGiven(id: unknown): id is string {
  return typeof id === 'string' && id !== '';
}

/** One text separated by spaces (RFC 8693 4.2), or a list. Names of other services are left out. */
function scopesOf({ scope, scp }: JWTPayload): ReadonlySet<Scope> {
  const granted = scope ?? scp;
  const names = typeof granted === 'string' ? granted.split(' ') : Array.isArray(granted) ? granted : [];
  return new Set(names.filter(isScope));
}
