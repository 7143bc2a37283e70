import { createLocalJWKSet, errors, type FlattenedJWSInput, type JWSHeaderParameters } from 'jose';
import type { Clock } from '../platform/clock.js';
import { fetchKeySet, type TokenSettings } from './issuer.js';

/** The issuer is asked at most this often, whatever comes: else a stranger's tokens could make us call it with each request. Longer than a call. */
const COOLDOWN_MS = 10_000;
/** A key that the issuer withdrew is refused after about this time. */
const REFRESH_MS = 60_000;

/** The issuer's keys could not be fetched, so a token may be good. */
export class IssuerUnavailable extends Error {
  override readonly name = 'IssuerUnavailable';
}

/**
 * The public keys of an issuer, by the last set that it gave. The set is fetched when the first token comes, and from then on in
 * the background: a key that is known stays good while the issuer is down.
 */
export class IssuerKeys {
  private keySet: ReturnType<typeof createLocalJWKSet> | undefined;
  /** The last question to the issuer, which fails with IssuerUnavailable. It stands for the cooldown, also where it failed. */
  private answer: Promise<void> = Promise.resolve();
  private askedAt = Number.NEGATIVE_INFINITY;
  private cancelRefresh = () => {};

  constructor(
    private readonly settings: TokenSettings,
    private readonly clock: Clock,
  ) {
    this.refreshLater();
  }

  /** The key that is to verify the token. Rejects with IssuerUnavailable, or an error about the token. */
  readonly keyFor = async (header: JWSHeaderParameters, token: FlattenedJWSInput) => {
    const known = await this.find(header, token);
    if (known) return known;
    await this.ask();
    const key = await this.find(header, token);
    if (!key) throw new errors.JWKSNoMatchingKey();
    return key;
  };

  close(): void {
    this.cancelRefresh();
  }

  private async find(header: JWSHeaderParameters, token: FlattenedJWSInput) {
    try {
      return await this.keySet?.(header, token);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return undefined;
      throw error;
    }
  }

  private ask(): Promise<void> {
    const now = this.clock.monotonic();
    if (now - this.askedAt >= COOLDOWN_MS) {
      this.askedAt = now;
      this.answer = this.fetch();
    }
    return this.answer;
  }

  private async fetch(): Promise<void> {
    try {
      this.keySet = createLocalJWKSet(await fetchKeySet(this.settings));
    } catch (cause) {
      throw new IssuerUnavailable('the key set of the issuer cannot be had', { cause });
    }
  }

  private refreshLater(): void {
    this.cancelRefresh = this.clock.after(REFRESH_MS, () => {
      if (this.keySet) this.ask().catch(() => {});
      this.refreshLater();
    });
  }
}
