import type { Clock } from '../../../clock.js';
import type { BeginResult, KeyStore, LookResult } from '../../../payments/ports/key-store.js';
import { DECLINED, type FinalOutcome, KEY_GENERATED, recordValueOf } from '../../../payments/values/payment.js';
import type { KeyNames } from './key-names.js';
import type { LockEnds } from './lock-ends.js';
import type { RedisClient } from './redis-client.js';
import { loadScript } from './redis-script.js';

/** Asks for a look instead of a lock. */
const NO_OWNER = '';
/** Asks for the end of the lock that is found to be announced. */
const WATCH = 'watch';

/** Key records and locks in Redis: one script, and so one round trip and one atomic step, for each operation. */
export function createRedisKeyStore(client: RedisClient, names: KeyNames, ends: LockEnds, clock: Clock): KeyStore {
  const issue = loadScript('issue');
  const begin = loadScript('begin');
  const finish = loadScript('finish');
  const release = loadScript('release');

  async function runBegin(key: string, owner: string, leaseMs: number, fingerprint: string): Promise<unknown[]> {
    const { record, lock } = names.payment(key);
    return (await begin(client, [record, lock], [owner, leaseMs, fingerprint, KEY_GENERATED])) as unknown[];
  }

  async function runLook(key: string, ...watch: [] | [typeof WATCH]): Promise<LookResult> {
    const { record, lock } = names.payment(key);
    return lookedFrom((await begin(client, [record, lock], [NO_OWNER, 0, '', KEY_GENERATED, ...watch])) as unknown[]);
  }

  return {
    async issue(key, idempotencyTtlMs) {
      await issue(client, [names.payment(key).record], [KEY_GENERATED, idempotencyTtlMs]);
    },

    async begin({ key, owner, leaseMs, fingerprint }): Promise<BeginResult> {
      const askedAt = clock.monotonic();
      const reply = await runBegin(key, owner, leaseMs, fingerprint);
      if (reply[0] === 'taken') return { state: 'taken', claimBy: askedAt + Number(reply[1]) };
      return lookedFrom(reply) as Exclude<LookResult, { state: 'generated' }>;
    },

    look: (key) => runLook(key),

    async watch(key, onEnd) {
      await ends.subscribed();
      const unwatch = ends.listen(names.payment(key).lock, onEnd);
      try {
        return { looked: await runLook(key, WATCH), unwatch };
      } catch (fault) {
        unwatch();
        throw fault;
      }
    },

    async finish(key, owner, final) {
      const { record, lock } = names.payment(key);
      const { outcome, fingerprint, expiresAt } = final;
      const reason = outcome.state === 'DECLINED' ? outcome.reason : '';
      await finish(
        client,
        [record, lock],
        [owner, recordValueOf(outcome), fingerprint, reason, expiresAt, names.lockEnds],
      );
    },

    async release(key, owner) {
      await release(client, [names.payment(key).lock], [owner, names.lockEnds]);
    },
  };
}

function lookedFrom(reply: readonly unknown[]): LookResult {
  switch (reply[0]) {
    case 'locked':
      return {
        state: 'locked',
        fingerprint: String(reply[1]),
        heldMs: Math.max(0, Number(reply[2])),
        remainingMs: Math.max(0, Number(reply[3])),
      };
    case 'final':
      return { state: 'final', final: finalFrom(reply) };
    case 'generated':
      return { state: 'generated' };
    default:
      return { state: 'absent' };
  }
}

function finalFrom(reply: readonly unknown[]): FinalOutcome {
  const [, value, fingerprint, reason, expiresAt] = reply.map(String);
  return {
    outcome:
      value === DECLINED
        ? { state: 'DECLINED', reason: reason ?? '' }
        : { state: 'COMPLETED', transactionId: value ?? '' },
    fingerprint: fingerprint ?? '',
    expiresAt: Number(expiresAt),
  };
}
