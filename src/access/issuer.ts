import type { JWK } from 'jose';
import { isLoopback } from '../platform/loopback.js';

/** The issuer whose tokens are taken (rule A3). */
export interface TokenSettings {
  readonly issuer: string;
  readonly audience: string;
  /** Undefined if the issuer's metadata names it (OpenID Connect Discovery 1.0, 4). */
  readonly jwksUrl: string | undefined;
}

/** For metadata and keys together. */
const ISSUER_TIMEOUT_MS = 5_000;
/** Room for a hundred keys with their certificates. Sets of large issuers have 10 kB. */
const ANSWER_LIMIT_BYTES = 262_144;

/** https, or http on this machine: over plain HTTP an attacker on the network could replace the keys. */
export function isSafeUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || `${url.username}${url.password}` !== '') return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

/** True if the issuer can be asked for the place of its keys (OpenID Connect Discovery 1.0, 3). */
export function isDiscoverable(issuer: string): boolean {
  return isSafeUrl(issuer) && !/[?#]/.test(issuer);
}

/** The issuer's keys as they are now. Rejects if they are not available. */
export async function fetchKeySet({ issuer, jwksUrl }: TokenSettings): Promise<{ keys: JWK[] }> {
  const signal = AbortSignal.timeout(ISSUER_TIMEOUT_MS);
  const keySet = await readJson(jwksUrl ?? (await discover(issuer, signal)), signal);
  if (Array.isArray(keySet.keys)) return { ...keySet, keys: keySet.keys };
  throw new Error('the JSON of the issuer is not a set of keys');
}

async function discover(issuer: string, signal: AbortSignal): Promise<string> {
  const metadata = await readJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, signal);
  // Else one issuer could speak for another one (OpenID Connect Discovery 1.0, 4.3).
  if (metadata.issuer !== issuer) throw new Error(`the metadata of ${issuer} is that of another issuer`);
  if (typeof metadata.jwks_uri === 'string' && isSafeUrl(metadata.jwks_uri)) return metadata.jwks_uri;
  throw new Error(`the metadata of ${issuer} has no jwks_uri with https`);
}

async function readJson(url: string, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  const headers = { accept: 'application/json, application/jwk-set+json' };
  const { status, body } = await fetch(url, { headers, signal, redirect: 'manual' });
  if (status !== 200) {
    await body?.cancel();
    throw new Error(`${shown(url)} answered ${status}, not 200 OK`);
  }
  const value: unknown = JSON.parse(new TextDecoder().decode(await bytesOf(body, url)));
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw new Error(`the JSON of ${shown(url)} is not an object`);
}

async function bytesOf(body: ReadableStream<Uint8Array> | null, url: string): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body ?? []) {
    length += part.length;
    // An exception here ends the connection.
    if (length > ANSWER_LIMIT_BYTES)
      throw new Error(`the answer of ${shown(url)} has more than ${ANSWER_LIMIT_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** For messages: a query may have a secret in it. */
function shown(url: string): string {
  return url.replace(/\?.*/s, '');
}
