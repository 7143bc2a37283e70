import { newSecret, sha256Of } from '#idempay/access/api-keys.js';
import type { Scope } from '#idempay/access/scopes.js';

/** The secret of a client, and its entry in a file of API keys. */
export interface Credential {
  readonly entry: { readonly name: string; readonly scopes: readonly Scope[]; readonly sha256: string };
  readonly headers: { readonly Authorization: string };
}

export function credentialOf(name: string, scopes: readonly Scope[]): Credential {
  const secret = newSecret();
  return { entry: { name, scopes, sha256: sha256Of(secret) }, headers: { Authorization: `Bearer ${secret}` } };
}

export function keyFileOf(...credentials: readonly Credential[]): string {
  return JSON.stringify(credentials.map(({ entry }) => entry));
}
