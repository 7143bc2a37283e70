import { type AccessKind, type Adoption, accessRefusal } from '../../payments/values/adoption.js';
import {
  type ClaimedProcessors,
  lossRefusalOf,
  type PaidCounts,
  refusalOf,
  SIMULATED,
  type StoreWords,
  warningsOf,
} from '../../payments/values/processor-names.js';
import type { Clock } from '../../platform/clock.js';
import { type Finding, milliseconds, verdictOf } from '../../platform/finding.js';
import { isLoopback } from '../../platform/loopback.js';
import { CannotOpen } from './deployment.js';
import { CLOCKS_DIFFER_MS } from './replaced-database.js';

/** Clocks that are synchronized differ by milliseconds. */
const NOTICEABLE_MS = 1_000;
const CLOCK_QUESTIONS = 3;

/** The settings of a service that its start compares with the payments in the store. */
export interface ComparedSettings {
  /** The names of the service's processor. */
  readonly processors: readonly string[];
  /** `AUTH`. */
  readonly access: AccessKind;
}

/** A question to a store, and the rows that its answer gives the doctor. The lists of each store say which of them a start asks too. */
export type Check<Subject> = (subject: Subject) => Rows | Promise<Rows>;
type Rows = Finding | readonly Finding[];

/** Asks one check after the other, and adds to `findings`. Rejects at the first without an answer. */
export async function examine<Subject>(
  checks: readonly Check<Subject>[],
  subject: Subject,
  findings: Finding[] = [],
): Promise<Finding[]> {
  for (const check of checks) findings.push(...[await check(subject)].flat());
  return findings;
}

/**
 * Compares a store's clock with ours, in the middle of the quickest of some round trips. `ask` gives the store's time in
 * milliseconds since the epoch.
 */
export async function examineClock(store: string, clock: Clock, ask: () => Promise<number>): Promise<Finding> {
  let skewMs = 0;
  let shortestMs = Number.POSITIVE_INFINITY;
  for (let question = 0; question < CLOCK_QUESTIONS; question += 1) {
    const [askedAt, ours] = [clock.monotonic(), clock.now()];
    const theirs = await ask();
    const roundTripMs = clock.monotonic() - askedAt;
    if (roundTripMs >= shortestMs) continue;
    shortestMs = roundTripMs;
    skewMs = theirs - (ours + roundTripMs / 2);
  }
  const offMs = Math.abs(skewMs);
  return {
    verdict: verdictOf(offMs >= CLOCKS_DIFFER_MS, offMs >= NOTICEABLE_MS),
    what: `${store} clock`,
    found: `${milliseconds(offMs)} ${skewMs < 0 ? 'behind' : 'ahead'}, round trip ${milliseconds(shortestMs)}`,
    wanted: 'less than 1 s apart',
    why: `keys and leases carry times; beyond ${CLOCKS_DIFFER_MS / 1_000} s a lost row may not be noticed after a failover`,
  };
}

/** Warns if data for a store can be read on the way. `tls` says how it is protected, if it is. */
export function judgeTransport(store: string, host: string, tls: string | undefined): Finding {
  const isLocal = isLoopback(host) || host.startsWith('/');
  return {
    verdict: verdictOf(false, tls === undefined && !isLocal),
    what: `${store} TLS`,
    found: tls ?? (isLocal ? 'none, on this machine' : 'none'),
    wanted: 'TLS, unless on this machine',
    why: 'passwords and payments can be read on the way',
  };
}

/** The rows whose reference ends with a separator: a cheap condition before the whole pattern of a name that lost its number. */
export const ENDS_WITH_SEPARATOR = "rtrim(reference, '-._~:/@') <> reference";

/** Payments from before such references were refused. `example`: one of their references. */
export function judgeLostNumbers(found: { readonly payments: number; readonly example: string } | undefined): Finding {
  return {
    verdict: verdictOf(false, found !== undefined),
    what: 'orders without a number',
    found: found ? `${found.payments}, for example ${found.example}` : 'none',
    wanted: 'none',
    why: 'one payment may stand for several orders; list each such reference, and compare it with the orders of the shop',
  };
}

/** Judges the start of a service with the processor `own` on a store, and what counts there as paid without it (rule P14). */
export function judgeProcessors(
  own: readonly string[],
  claimed: ClaimedProcessors,
  paid: PaidCounts,
  words: StoreWords,
): Finding {
  const { used } = claimed;
  const refusal = refusalOf(own[0] ?? '', used, words) ?? lossRefusalOf(own, claimed);
  const warnings = warningsOf(own, used, paid);
  return {
    verdict: verdictOf(refusal !== undefined, warnings.length > 0),
    what: 'PROCESSOR_URL and the payments',
    found:
      refusal ??
      (warnings.length > 0 ? warnings.join('; ') : used.length === 0 ? 'no payments yet' : 'of one processor'),
    wanted: 'payments of one processor',
    why: 'an order counts as paid whether its payment was simulated, made in a sandbox, or real',
  };
}

/** Judges the start of a service with this `AUTH` on a store: the key of an order that was paid in the other way would be another one. */
export async function judgeAccess(access: AccessKind, adoption: Adoption, { place }: StoreWords): Promise<Finding> {
  const refusal = await accessRefusal(access, adoption, place);
  return {
    verdict: verdictOf(refusal !== undefined),
    what: 'AUTH and the orders',
    found: refusal ?? 'none that would be charged again',
    wanted: 'AUTH as the orders were paid, or a decision',
    why: 'the key of an order has its client in it; a service with another AUTH does not start',
  };
}

/** Throws CannotOpen if a payment was made at a processor: such payments are never removed by hand. */
export function refuseRealPayments(used: readonly string[]): void {
  const names = used.filter((name) => name !== SIMULATED);
  if (names.length === 0) return;
  throw new CannotOpen(`Nothing was removed: payments in this store were made at ${names.join(', ')}.`);
}
