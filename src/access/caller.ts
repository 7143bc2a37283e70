import type { Scope } from './scopes.js';

/** The sender of a request, as its credentials say. */
export interface Caller {
  /** `key:<name>`, `jwt:<application>` or `jwt-sub:<subject>`: the owner of the idempotency keys that it asks for (rule A5). */
  readonly client: string;
  readonly scopes: ReadonlySet<Scope>;
}

/** `unavailable`: the credentials could not be checked, and may be good. */
export type AuthenticationResult =
  | { readonly state: 'authenticated'; readonly caller: Caller }
  | { readonly state: 'missing' }
  | { readonly state: 'invalid' }
  | { readonly state: 'unavailable' };
