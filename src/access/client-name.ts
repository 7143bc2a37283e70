import { codePointsIn, isPrinted } from '../platform/printed-text.js';
import { isClientName } from './api-keys.js';

/** OpenID Connect has this limit for `sub`; RFC 7519 has none. */
const MAX_TOKEN_CODE_POINTS = 255;
const CLIENT = /^(key|jwt|jwt-sub):(.+)$/s;

/** True if a caller can have this client: an operator's text is judged like the name in credentials. */
export function isClient(text: string): boolean {
  const [, kind, name = ''] = CLIENT.exec(text) ?? [];
  return kind === 'key' ? isClientName(name) : isTokenClientName(name);
}

/** It is stored in each payment row, so a name that a store would shorten or refuse is not accepted. */
export function isTokenClientName(text: string): boolean {
  return text !== '' && isPrinted(text) && codePointsIn(text) <= MAX_TOKEN_CODE_POINTS;
}
