import type { ClaimAttempt, Ledger, Resolution, Takeover } from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { claimAttempt, givenSettled, inState, LONG_MS, newKey, newOwner, SHORT_MS } from './payment-attempts.js';
import type { ContractPorts } from './ports.js';

type Attempt = Partial<ClaimAttempt>;

/** What contract cases begin with, on these ports: each fails when a port answers in any other way. */
export function paymentSteps({ keys, ledger, clock, pass }: ContractPorts) {
  const attempt = (members: Attempt = {}) => claimAttempt({ claimBy: clock.monotonic() + LONG_MS, ...members });

  async function claim(members: Attempt = {}): Promise<Claim> {
    return inState(await ledger.claim(attempt(members)), 'claimed').claim;
  }

  return {
    attempt,
    claim,

    async issuedKey(ttlMs = LONG_MS): Promise<string> {
      const key = newKey();
      await keys.issue(key, ttlMs);
      return key;
    },

    begin(key: string, owner = newOwner(), leaseMs = LONG_MS, fingerprint = '100.50 USD') {
      return keys.begin({ key, owner, leaseMs, fingerprint });
    },

    claims: (count: number, members: Attempt = {}) => Promise.all(Array.from({ length: count }, () => claim(members))),

    /** Its lease is over when this resolves. */
    async deadClaim(members: Attempt = {}): Promise<Claim> {
      const dead = await claim({ ...members, leaseMs: SHORT_MS });
      await pass(SHORT_MS);
      return dead;
    },

    /** Given up by its owner. */
    async abandoned(members: Attempt = {}, recoverAfterMs = 0, mark?: 'unsent'): Promise<Claim> {
      const given = await claim(members);
      if (!(await ledger.abandon(given, recoverAfterMs, mark))) throw new Error('the claim was not given up');
      return given;
    },

    async takeover({ key, processor }: Claim, members: Partial<Takeover> = {}): Promise<Claim> {
      const taken = await ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS, ...members });
      if (!taken) throw new Error('the payment was not taken over');
      return taken;
    },

    settled: (given: Claim, ending: Parameters<typeof givenSettled>[2] = {}) => givenSettled(ledger, given, ending),

    resolve(key: string, members: Partial<Resolution> = {}): ReturnType<Ledger['resolve']> {
      const verdict = { state: 'COMPLETED', reason: 'seen on the statement' } as const;
      const limits = { dedupMs: 0, idempotencyTtlMs: LONG_MS };
      return ledger.resolve({ key, owner: newOwner(), ...verdict, ...limits, ...members });
    },
  };
}
