import type { BeginAttempt, BeginResult, KeyBinding, KeyLookResult, KeyStore } from '../../payments/ports/key-store.js';
import { DECLINED, type FinalOutcome, KEY_GENERATED, recordValueOf } from '../../payments/values/payment.js';
import type { Clock } from '../../platform/clock.js';
import { NOT_MEASURED, type StoreMeasures } from '../shared/store-measures.js';
import type { AnnouncedLockEnds } from './announced-lock-ends.js';
import type { RedisClient } from './connection/masters.js';
import type { KeyNames } from './key-names.js';
import type { RememberedOutcomes } from './remembered-outcomes.js';
import { loadScript } from './scripts/script.js';

/** No owner: only looks, takes no lock. */
const NO_OWNER = '';
/** As the asking client: sees every key. As the client of a key: every client sees it. */
const EVERYBODY = '';
/** Requests an announcement when the lock that is found ends. */
const WATCH = 'watch';
const NO_WATCH = '';

/**
 * Key records and locks in Redis: one script, and so one round trip and one atomic step, for each operation. No round trip for an outcome
 * that this process remembers: until the record expires, Redis would return the same.
 */
export function createRedisKeyStore(
  client: RedisClient,
  names: KeyNames,
  ends: AnnouncedLockEnds,
  {
    clock,
    remembered,
    measures = NOT_MEASURED,
  }: { clock: Clock; remembered: RememberedOutcomes; measures?: StoreMeasures | undefined },
): KeyStore {
  const issue = loadScript('issue', measures);
  const begin = loadScript('begin', measures);
  const finish = loadScript('finish', measures);
  const release = loadScript('release', measures);
  const forget = loadScript('forget', measures);

  async function runBegin({
    key,
    owner,
    leaseMs,
    fingerprint,
    client: asker,
    makes,
  }: BeginAttempt): Promise<BeginResult> {
    const askedAt = clock.monotonic();
    const { record, lock } = names.payment(key);
    const values = [owner, leaseMs, fingerprint, KEY_GENERATED, asker ?? EVERYBODY];
    if (makes) {
      const { text, attempt, client: named } = makes.reference;
      values.push(NO_WATCH, makes.lifeMs, named ?? EVERYBODY, text, attempt);
    }
    const reply = (await begin(client, [record, lock], values)) as unknown[];
    if (reply[0] === 'taken') {
      return { state: 'taken', claimBy: askedAt + Number(reply[1]), ...keyBindingFrom(reply) };
    }
    return noted(key, reply) as Exclude<KeyLookResult, { state: 'generated' }>;
  }

  async function runLook(key: string, asker = EVERYBODY, ...watch: [] | [typeof WATCH]): Promise<KeyLookResult> {
    const { record, lock } = names.payment(key);
    const values = [NO_OWNER, 0, '', KEY_GENERATED, asker, ...watch];
    return noted(key, (await begin(client, [record, lock], values)) as unknown[]);
  }

  function noted(key: string, reply: readonly unknown[]): KeyLookResult {
    const looked = lookedFrom(reply);
    if (looked.state === 'final' && !isBehindLock(reply)) remembered.remember(key, looked.final);
    return looked;
  }

  return {
    async issue(key, idempotencyTtlMs, { client: issuedTo = EVERYBODY, reference } = {}) {
      const values = [KEY_GENERATED, idempotencyTtlMs, issuedTo];
      if (reference) values.push(reference.text, reference.attempt);
      await issue(client, [names.payment(key).record], values);
    },

    async begin(attempt) {
      const known = remembered.find(attempt.key, attempt.client);
      return known ? { state: 'final', final: known } : runBegin(attempt);
    },

    async look(key, asker) {
      const known = remembered.find(key, asker);
      return known ? { state: 'final', final: known } : runLook(key, asker);
    },

    async watch(key, onEnd) {
      await ends.subscribed();
      const unwatch = ends.listen(names.payment(key).lock, onEnd);
      try {
        return { looked: await runLook(key, EVERYBODY, WATCH), unwatch };
      } catch (fault) {
        unwatch();
        throw fault;
      }
    },

    async finish(key, owner, final) {
      const { record, lock } = names.payment(key);
      const { outcome, fingerprint, expiresAt } = final;
      const reason = outcome.state === 'DECLINED' ? outcome.reason : '';
      const isUnlocked = await finish(
        client,
        [record, lock],
        [owner, recordValueOf(outcome), fingerprint, reason, expiresAt, names.lockEnds, final.client ?? EVERYBODY],
      );
      if (isUnlocked === 1) remembered.remember(key, final);
    },

    async release(key, owner) {
      await release(client, [names.payment(key).lock], [owner, names.lockEnds]);
    },

    async forget(key, owner) {
      const { record, lock } = names.payment(key);
      await forget(client, [record, lock], [owner, names.lockEnds]);
    },
  };
}

function lookedFrom(reply: readonly unknown[]): KeyLookResult {
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
      return { state: 'generated', ...keyBindingFrom(reply) };
    default:
      return { state: 'absent' };
  }
}

/** True if the asker holds the lock: then every other asker gets `locked`, so the outcome is not remembered. */
function isBehindLock(reply: readonly unknown[]): boolean {
  return (reply[6] ?? undefined) !== undefined;
}

function finalFrom(reply: readonly unknown[]): FinalOutcome {
  const [, value, fingerprint, reason, expiresAt, client] = reply.map(String);
  return {
    outcome:
      value === DECLINED
        ? { state: 'DECLINED', reason: reason ?? '' }
        : { state: 'COMPLETED', transactionId: value ?? '' },
    fingerprint: fingerprint ?? '',
    client: clientFrom(client),
    expiresAt: Number(expiresAt),
  };
}

/** From the reply to a begin that took the lock, or to a look. */
function keyBindingFrom([, , issuedTo, text, attempt]: readonly unknown[]): KeyBinding {
  const client = clientFrom(issuedTo);
  if (typeof text !== 'string') return { client };
  return { client, reference: { text, attempt: Number(attempt), client } };
}

function clientFrom(value: unknown): string | undefined {
  return value === EVERYBODY ? undefined : String(value);
}
