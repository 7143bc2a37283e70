import { fetchKeySet, type TokenSettings } from '../access/issuer.js';
import { reasonOf } from '../platform/faults.js';
import { type Finding, milliseconds, verdictOf } from '../platform/finding.js';

/** The key types of asymmetric algorithms. */
const KEY_TYPES = ['RSA', 'EC', 'OKP'];

/** Fetches the issuer's key set, as the first token does. */
export async function examineKeySet(settings: TokenSettings): Promise<Finding> {
  const row = {
    what: settings.jwksUrl === undefined ? 'JWT_ISSUER' : 'JWT_JWKS_URL',
    wanted: 'the public keys of the issuer',
    why: 'without them every token is answered with 503',
  };
  const startedAt = performance.now();
  try {
    const { keys } = await fetchKeySet(settings);
    const tookMs = performance.now() - startedAt;
    const usable = keys.filter(({ kty }) => KEY_TYPES.includes(kty ?? ''));
    const found = `${usable.length} public keys, in ${milliseconds(tookMs)}`;
    return { ...row, found, verdict: verdictOf(usable.length === 0) };
  } catch (error) {
    return { ...row, found: reasonOf(error), verdict: 'wrong' };
  }
}
