import { createLocalJWKSet, errors, type FlattenedJWSInput, type JWSHeaderParameters } from 'jose';
import type { Clock } from '../platform/clock.js';
import { reasonOf } from '../platform/faults.js';
import type { AccessLog } from './access-log.js';
import { fetchKeySet, type TokenSettings } from './issuer.js';

/** The issuer is asked at most this often: otherwise a stranger's tokens could make us call it with each request. Longer than a call. */
const COOLDOWN_MS = 10_000;
/** A key that the issuer withdrew is refused after about this time. */
const REFRESH_MS = 60_000;
/** A failure that goes on is logged again after this time. */
const REPORT_AGAIN_MS = 3_600_000;
const MINUTE_MS = 60_000;

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
  /** The last question to the issuer, which fails with IssuerUnavailable. It stands for the cooldown, also if it failed. */
  private answer: Promise<void> = Promise.resolve();
  private askedAt = Number.NEGATIVE_INFINITY;
  private cancelRefresh = () => {};
  /** When the issuer failed first, since it gave a set. */
  private failingSince: number | undefined;
  private reportedAt = Number.NEGATIVE_INFINITY;
  private keyReportedAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly settings: TokenSettings,
    private readonly clock: Clock,
    private readonly log: AccessLog,
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
      if (!(error instanceof errors.JOSEError)) this.reportKey(header, error);
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
      this.reportServed();
    } catch (cause) {
      this.reportFailed(cause);
      throw new IssuerUnavailable('the key set of the issuer cannot be had', { cause });
    }
  }

  private reportFailed(cause: unknown): void {
    const now = this.clock.monotonic();
    this.failingSince ??= now;
    if (now - this.reportedAt < REPORT_AGAIN_MS) return;
    this.reportedAt = now;
    const effect = this.keySet
      ? 'Tokens with a known key are accepted, also if the issuer has withdrawn it since; the others get 503'
      : 'Every token gets 503';
    this.log.error(
      `the keys of the token issuer cannot be fetched${minutesSince(this.failingSince, now)}: ${reasonOf(cause)}. ${effect}.`,
    );
  }

  private reportServed(): void {
    if (this.failingSince === undefined) return;
    const minutes = minutesSince(this.failingSince, this.clock.monotonic());
    this.log.info(`the keys of the token issuer are fetched again${minutes && `, after they could not be${minutes}`}`);
    this.failingSince = undefined;
    this.reportedAt = Number.NEGATIVE_INFINITY;
  }

  /** A key of the set that cannot be used, although the token is right. */
  private reportKey({ kid }: JWSHeaderParameters, error: unknown): void {
    const now = this.clock.monotonic();
    if (now - this.keyReportedAt < REPORT_AGAIN_MS) return;
    this.keyReportedAt = now;
    this.log.error(
      `the key ${JSON.stringify(kid)} of the token issuer cannot be used: ${reasonOf(error)}. Its tokens get 503.`,
    );
  }

  private refreshLater(): void {
    this.cancelRefresh = this.clock.after(REFRESH_MS, () => {
      if (this.keySet) this.ask().catch(() => {});
      this.refreshLater();
    });
  }
}

function minutesSince(since: number, now: number): string {
  const minutes = Math.floor((now - since) / MINUTE_MS);
  return minutes === 0 ? '' : ` for ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`;
}
