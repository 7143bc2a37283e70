import type { KeyStore, Watch } from '#idempay/payments/ports/key-store.js';
import type {
  BegunEnding,
  Cancellation,
  ClaimAttempt,
  Left,
  Resolution,
  Takeover,
} from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { until } from '../time/until.js';
import {
  cancellation,
  DECLINED,
  givenClaim,
  givenSettled,
  inState,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
  type TurnMembers,
} from './payment-attempts.js';
import type { ContractPorts } from './ports.js';

const TOLD_DEADLINE_MS = 15_000;

export type CountingWatch = Watch & { told(): number };
type Attempt = Partial<ClaimAttempt>;

export function untilTold({ told }: Pick<CountingWatch, 'told'>): Promise<unknown> {
  return until('the end of the lock to be told', TOLD_DEADLINE_MS, () => told() > 0);
}

export async function statesAtOnce(count: number, ask: () => Promise<{ readonly state: string }>) {
  const counts: Record<string, number> = {};
  for (const { state } of await Promise.all(Array.from({ length: count }, ask)))
    counts[state] = 1 + (counts[state] ?? 0);
  return counts;
}

/** The first steps of cases, on this key store: each fails when it answers in any other way. */
export function keySteps(keys: KeyStore) {
  function begin(key: string, owner = newOwner(), leaseMs = LONG_MS, fingerprint = '100.50 USD') {
    return keys.begin({ key, owner, leaseMs, fingerprint });
  }

  async function issuedKey(ttlMs = LONG_MS): Promise<string> {
    const key = newKey();
    await keys.issue(key, ttlMs);
    return key;
  }

  return {
    begin,
    issuedKey,

    async lockedKey(leaseMs = LONG_MS) {
      const [key, owner] = [await issuedKey(), newOwner()];
      inState(await begin(key, owner, leaseMs), 'taken');
      return { key, owner };
    },

    async watching(key: string): Promise<CountingWatch> {
      let told = 0;
      const watch = await keys.watch(key, () => {
        told += 1;
      });
      return { ...watch, told: () => told };
    },
  };
}

/** The same of payments, on these ports. */
export function paymentSteps({ keys, ledger, clock, pass }: Pick<ContractPorts, 'keys' | 'ledger' | 'clock' | 'pass'>) {
  const claim = (members?: Attempt): Promise<Claim> => givenClaim(ledger, members);
  const settled = (given: Claim, ending?: Parameters<typeof givenSettled>[2]) => givenSettled(ledger, given, ending);

  return {
    ...keySteps(keys),
    claim,
    settled,
    settledKey: async (key: string, ending?: Parameters<typeof settled>[1], client?: string) =>
      settled(await claim({ key, client }), ending),
    claims: (count: number, members?: Attempt) => Promise.all(Array.from({ length: count }, () => claim(members))),
    statesOf: async (key: string) => [(await keys.look(key)).state, (await ledger.find(key)).state],

    async deadClaim(members: Attempt = {}): Promise<Claim> {
      const dead = await claim({ ...members, leaseMs: SHORT_MS });
      await pass(SHORT_MS);
      return dead;
    },

    async abandoned(members?: Attempt, recoverAfterMs = 0, mark?: 'unsent'): Promise<Claim> {
      const given = await claim(members);
      if (!(await ledger.abandon(given, recoverAfterMs, mark))) throw new Error('the claim was not given up');
      return given;
    },

    async takeover(
      { key, processor }: Pick<Claim, 'key' | 'processor'>,
      members: Partial<Takeover> & { readonly isPending?: boolean } = {},
    ): Promise<Claim> {
      const taken = await ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS, ...members });
      if (!taken) throw new Error('the payment was not taken over');
      return taken;
    },

    /** A payment that its first attempt left at the processor. Its next question is due at once. */
    async pending(members?: Attempt, left: Partial<Left> = {}): Promise<Claim> {
      const given = await claim(members);
      const pendingUntilMs = clock.now() + LONG_MS;
      if (!(await ledger.leave(given, { recoverAfterMs: 0, pendingUntilMs, ...left }, { sent: true })))
        throw new Error('the claim was not left');
      return given;
    },

    /** A takeover by a cancellation of the whole order; undefined if it is refused. */
    beginEnding({ key, processor }: Pick<Claim, 'key' | 'processor'>, members: Partial<BegunEnding> = {}) {
      const begun = { key, processor, owner: newOwner(), leaseMs: LONG_MS, scope: 'order', onlyUnsent: false } as const;
      return ledger.beginEnding({ ...begun, ...members });
    },

    /** An attempt at a reference that is declined. */
    async declined(turn: TurnMembers, ttlMs = LONG_MS): Promise<Claim> {
      const given = await claim(turn);
      await settled(given, { outcome: DECLINED, ttlMs });
      return given;
    },

    async cancelled(members: Partial<Cancellation> = {}): Promise<Cancellation> {
      const given = cancellation(members);
      inState(await ledger.cancel(given), 'cancelled');
      return given;
    },

    resolve(key: string, members: Partial<Resolution> = {}) {
      const verdict = { state: 'COMPLETED', reason: 'seen on the statement' } as const;
      const limits = { dedupMs: 0, idempotencyTtlMs: LONG_MS };
      return ledger.resolve({ key, owner: newOwner(), ...verdict, ...limits, ...members });
    },
  };
}
