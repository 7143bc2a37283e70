import type { Clock } from '../platform/clock.js';
import type { AccessLog } from './access-log.js';
import type { AccessSettings } from './access-settings.js';
import { SECRET_PREFIX } from './api-keys.js';
import type { AuthenticationResult } from './caller.js';
import { openKeyFile } from './key-file.js';
import { createTokenCheck } from './tokens.js';

/** Identifies the client of a request (rules A2 and A3). */
export interface Access {
  /** `authorization`: the header as sent. No promise if the issuer is not asked, so that an API key does not cost a turn. */
  authenticate(authorization: string | undefined): AuthenticationResult | Promise<AuthenticationResult>;
  /** The clients of the file of API keys. Clients that are known by tokens alone are in no list. */
  clients(): readonly string[];
  close(): void;
}

/** RFC 6750 2.1; the scheme in any case (RFC 9110 11.1). */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** Throws when the file of API keys cannot be read or used. If that happens later, it is logged. */
export function createAccess(
  { apiKeysFile, tokens }: Extract<AccessSettings, { kind: 'required' }>,
  clock: Clock,
  log: AccessLog,
): Access {
  const keyFile = apiKeysFile === undefined ? undefined : openKeyFile(apiKeysFile, (sentence) => log.error(sentence));
  const tokenCheck = tokens && createTokenCheck(tokens, clock, log);

  return {
    authenticate(authorization) {
      if (authorization === undefined) return { state: 'missing' };
      const credential = BEARER.exec(authorization)?.[1];
      if (credential === undefined) return { state: 'invalid' };
      if (!credential.startsWith(SECRET_PREFIX)) return tokenCheck?.check(credential) ?? { state: 'invalid' };
      const caller = keyFile?.current.callerWith(credential, clock.now());
      return caller ? { state: 'authenticated', caller } : { state: 'invalid' };
    },
    clients: () => keyFile?.current.clients ?? [],
    close() {
      keyFile?.close();
      tokenCheck?.close();
    },
  };
}
