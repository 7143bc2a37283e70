import { createHttp, type Http } from '../http/http.js';

export type Scope =
  | 'payments:write'
  | 'payments:read'
  | 'payments:read:all'
  | 'refunds:write'
  | 'transactions:read'
  | 'transactions:write'
  | 'operations'
  | 'metrics';

/** `GET /api/session`. */
export interface Session {
  readonly client: string | null;
  readonly access: 'none' | 'required';
  readonly scopes: readonly Scope[];
  /** For operators: the clients of the file of API keys. */
  readonly clients: readonly string[];
  readonly version: string;
  readonly deployment: 'embedded' | 'distributed';
  readonly instance: string;
  readonly processor: { readonly name: string; readonly movesMoney: boolean | null };
  readonly recovery: { readonly dedupSeconds: number; readonly keyTtlSeconds: number };
}

/** The properties that every view gets. */
export interface Access {
  readonly session: Session;
  readonly http: Http;
  /** True if the credential has one of these. */
  may(...scopes: readonly Scope[]): boolean;
}

/**
 * Opens the session of a credential. `onRefused` is called when the service no longer accepts it.
 */
export async function openAccess(
  credential: string | undefined,
  onRefused: (sentence: string) => void,
): Promise<Access> {
  let isOpen = false;
  const http = createHttp(credential, (sentence) => {
    if (isOpen) onRefused(sentence);
  });
  const { body: session } = await http.ask<Session>('api/session');
  isOpen = true;
  return { session, http, may: (...scopes) => scopes.some((scope) => session.scopes.includes(scope)) };
}
