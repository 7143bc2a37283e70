import type { Clock } from '../platform/clock.js';
import { type Answers, type PayAnswer, SOON } from './answers.js';
import type { Claims } from './claim.js';
import { outcomeWithoutKeyStore } from './outcomes.js';
import type { KeyStore, LookResult } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import { fingerprintOfRefused, type MoneyProblem } from './values/money.js';
import type { NamedPayment } from './values/reference.js';

/**
 * Answers a request whose content cannot be paid: by rules 2 to 4, then with its own problem. It takes no lock. Where its
 * amount and currency could be read it may repeat an earlier payment: it is compared with it, and takes it over if its owner is dead.
 */
export type RefuseContent = (named: NamedPayment, refused: MoneyProblem) => Promise<PayAnswer>;

export function createRefuseContent(collaborators: {
  keys: Pick<KeyStore, 'look'>;
  ledger: Pick<Ledger, 'find'>;
  answers: Answers;
  claims: Pick<Claims, 'takeOver'>;
  clock: Clock;
  newOwner: () => string;
}): RefuseContent {
  const { keys, ledger, answers, claims, clock, newOwner } = collaborators;
  const { replay, conflict, conflictWith } = answers;

  return async function refuseContent(named, refused) {
    const { key, client, reference } = named;
    const askedAt = clock.monotonic();
    const fingerprint = fingerprintOfRefused(refused);
    const looked = await lookOrRead(key, client);
    if (looked.state === 'locked') return conflict(named, fingerprint, looked);
    if (looked.state === 'final') return replay(named, looked.final, fingerprint);
    const found = await ledger.find(key, client);
    switch (found.state) {
      case 'final':
      case 'under way':
      case 'cancelled':
      case 'expired':
        return conflictWith(named, found, fingerprint);
      case 'abandoned':
        return fingerprint ? claims.takeOver(named, newOwner(), askedAt, fingerprint) : SOON;
      case 'absent':
        if (looked.state === 'generated' || reference) return { state: 'invalid content', problem: refused.problem };
        return { state: 'invalid key' };
    }
  };

  async function lookOrRead(key: string, client: string | undefined): Promise<LookResult> {
    try {
      return await keys.look(key, client);
    } catch (fault) {
      return await outcomeWithoutKeyStore(ledger, key, client, fault);
    }
  }
}
