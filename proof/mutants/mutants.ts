// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is planted is source text

import type { DeploymentName } from '../faults/run.js';
import type { WorldName } from '../simulator/worlds.js';

/** One place in a file, told by its text; it must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** Who must notice. `contracts`: a file of the adapters' contract suites, on the real stores. */
export type Hunt =
  | { readonly by: 'simulator'; readonly world: WorldName }
  | { readonly by: 'faults'; readonly deployment: DeploymentName }
  | { readonly by: 'contracts'; readonly file: string };

/** A deliberate mistake, of those that are easily made. */
export interface Mutant {
  readonly name: string;
  readonly edits: readonly Edit[];
  readonly hunt: Hunt;
}

const ATTEMPT = 'src/payments/attempt.ts';
const PAYMENTS = 'src/payments/payments.ts';
const ANSWERS = 'src/payments/answers.ts';
const TRANSACTIONS = 'src/transactions/transactions.ts';
const EMBEDDED_CACHE = 'src/deployments/embedded/transaction-cache.ts';
const POSTGRES_STATEMENTS = 'src/deployments/distributed/postgres/ledger-statements.ts';
const SQLITE_STATEMENTS = 'src/deployments/embedded/payment-writes.ts';
const SCRIPTS = 'src/deployments/distributed/redis/scripts';
/** The simulator has its own copy of what the scripts do: a mistake in one is planted in both. */
const SIMULATED_CACHE = 'proof/simulator/transactions/cache.ts';

const PAYMENT_SEEDS: Hunt = { by: 'simulator', world: 'payments' };
const TRANSACTION_SEEDS: Hunt = { by: 'simulator', world: 'transactions' };
const DISTRIBUTED_FAULTS: Hunt = { by: 'faults', deployment: 'distributed' };
const EMBEDDED_FAULTS: Hunt = { by: 'faults', deployment: 'embedded' };
const DISTRIBUTED_CONTRACTS: Hunt = { by: 'contracts', file: 'test/contracts/distributed.test.ts' };
const EMBEDDED_CONTRACTS: Hunt = { by: 'contracts', file: 'test/contracts/embedded.test.ts' };
const DATABASE_CLOCK_TESTS: Hunt = { by: 'contracts', file: 'test/unit/database-clock.test.ts' };
const CACHE_FAILOVER_CONTRACTS: Hunt = { by: 'contracts', file: 'test/adapters/cache-across-failovers.test.ts' };
const UNSENT_PROTOCOL: Hunt = { by: 'contracts', file: 'test/protocol/unsent.test.ts' };
const CONFLICT_CONTRACTS: Hunt = { by: 'contracts', file: 'test/protocol/conflicts.test.ts' };
const HORIZON_CONTRACTS: Hunt = { by: 'contracts', file: 'test/adapters/embedded-horizon.test.ts' };

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'no unique row, in PostgreSQL: every claim is granted',
    hunt: DISTRIBUTED_FAULTS,
    edits: [
      {
        file: POSTGRES_STATEMENTS,
        find: 'ON CONFLICT (key) DO NOTHING',
        replace: `ON CONFLICT (key) DO UPDATE
      SET state = 'PROCESSING', epoch = 1, owner = excluded.owner, transaction_id = excluded.transaction_id,
        lease_until = excluded.lease_until, recover_at = excluded.recover_at, claimed_at = excluded.claimed_at,
        settled_at = NULL, expires_at = NULL, reason = NULL`,
      },
    ],
  },
  {
    name: 'no unique row, in SQLite',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: SQLITE_STATEMENTS,
        find: 'ON CONFLICT (key) DO NOTHING',
        replace: `ON CONFLICT (key) DO UPDATE
  SET state = 'PROCESSING', epoch = 1, owner = excluded.owner, lease_until = excluded.lease_until,
    transaction_id = excluded.transaction_id, settled_at = NULL, expires_at = NULL, reason = NULL`,
      },
    ],
  },
  {
    name: 'the number of claimed rows is ignored',
    hunt: DISTRIBUTED_FAULTS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/ledger.ts',
        find: 'const row = inserted.get(attempt.owner);',
        replace: 'const row = inserted.get(attempt.owner) ?? { mayBeLost: false, ageMs: 0 };',
      },
    ],
  },
  {
    name: 'settle without epoch, in SQLite (and rows name the process as their owner, else the owner does its work)',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: SQLITE_STATEMENTS,
        find: "settled_hour = ?\n  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;",
        replace: "settled_hour = ?\n  WHERE key = ? AND ? > 0 AND owner = ? AND state = 'PROCESSING'`;",
      },
      {
        // Alone it changes nothing that anybody sees: whoever becomes the owner of a row gets an epoch of its own.
        file: 'proof/simulator/payments/embedded-stores.ts',
        find: '() => file.write(name, input));',
        replace: `() => {
        if (input.owner === undefined || name === 'resolve') return file.write(name, input);
        const told = file.write(name, { ...input, owner: instance.name }) ?? null;
        return JSON.parse(JSON.stringify(told), (member, value) => (member === 'owner' ? input.owner : value));
      });`,
      },
    ],
  },
  {
    name: 'settle without epoch, in PostgreSQL',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: POSTGRES_STATEMENTS,
        find: 'payment.epoch = settled.epoch AND ',
        replace: '',
      },
    ],
  },
  {
    name: 'settle without owner, in SQLite',
    hunt: EMBEDDED_CONTRACTS,
    edits: [
      {
        file: SQLITE_STATEMENTS,
        find: "settled_hour = ?\n  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;",
        replace: "settled_hour = ?\n  WHERE key = ? AND epoch = ? AND ? > '' AND state = 'PROCESSING'`;",
      },
    ],
  },
  {
    name: 'settle without owner, in PostgreSQL',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: POSTGRES_STATEMENTS,
        find: ' AND payment.owner = settled.owner\n',
        replace: '\n',
      },
    ],
  },
  {
    name: 'unlock without token, in memory',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/deployments/embedded/key-store.ts',
        find: 'locks.get(key)?.owner === owner && locks.delete(key)',
        replace: 'locks.get(key)?.owner !== undefined && owner !== undefined && locks.delete(key)',
      },
    ],
  },
  {
    name: 'unlock without token, in Redis',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [{ file: `${SCRIPTS}/release.lua`, find: 'if lock[1] ~= ARGV[1] then', replace: 'if not lock[1] then' }],
  },
  {
    name: 'answer before commit',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: ATTEMPT,
        find: 'const settled = await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);',
        replace: `const outcome = outcomeOf(claim, result);
      ledger.settle(claim, outcome, idempotencyTtlMs).catch(() => {});
      const final = { outcome, fingerprint: claim.fingerprint, expiresAt: clock.now() + idempotencyTtlMs };
      const settled = { state: 'settled' as 'settled' | 'final' | 'fenced off', final };`,
      },
    ],
  },
  {
    name: 'the key store is told before the row',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: ATTEMPT,
        find: '      const settled = await ledger.settle(',
        replace: `      const early = { fingerprint: claim.fingerprint, expiresAt: clock.now() + idempotencyTtlMs };
      await endings.finish(claim.key, claim.owner, { ...early, outcome: outcomeOf(claim, result) });
      const settled = await ledger.settle(`,
      },
    ],
  },
  {
    name: 'commit tag ignored: whoever was fenced off answers as if it had settled',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: ATTEMPT,
        find: 'const settled = await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);',
        replace: `await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);
      const expiresAt = clock.now() + idempotencyTtlMs;
      const final = { outcome: outcomeOf(claim, result), fingerprint: claim.fingerprint, expiresAt };
      const settled = { state: 'settled' as 'settled' | 'final' | 'fenced off', final };`,
      },
    ],
  },
  {
    name: 'commit repeated blindly',
    hunt: TRANSACTION_SEEDS,
    edits: [
      {
        file: TRANSACTIONS,
        find: 'await commit(mark.writeBy).catch(async',
        replace: 'await commit(mark.writeBy).catch(() => commit(mark.writeBy)).catch(async',
      },
    ],
  },
  {
    name: 'a time-out of the processor is treated as a decline',
    hunt: EMBEDDED_FAULTS,
    edits: [
      {
        file: 'src/payments/processors/http.ts',
        find: "return unclear('a charge', reply, CHARGE_REFUSED);",
        replace: `return reply.complete
        ? unclear('a charge', reply, CHARGE_REFUSED)
        : { state: 'declined', reason: 'insufficient funds' };`,
      },
    ],
  },
  {
    name: 'an unclear charge is sent again at once',
    hunt: EMBEDDED_FAULTS,
    edits: [
      {
        file: ATTEMPT,
        find: 'return processor.charge({ reference: key, transactionId, amount, currency });',
        replace: `const charge = { reference: key, transactionId, amount, currency };
    const first = await processor.charge(charge);
    return first.state === 'unknown' ? processor.charge(charge) : first;`,
      },
    ],
  },
  {
    name: 'a lost reply of a settlement is taken for its commit',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/ledger.ts',
        find: '      const { claim } = settlement;\n',
        replace:
          '      const { claim } = settlement;\n      if (claim.epoch > 0) return Date.now() + settlement.ttlMs;\n',
      },
    ],
  },
  {
    name: 'a lost reply of a claim is taken for none',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/ledger.ts',
        find: 'return await claims.add(attempt);',
        replace:
          'return await claims.add(attempt).catch((fault) => !isUnknown(fault) || claims.add({ ...attempt, owner: `${attempt.owner}.` }));',
      },
    ],
  },
  {
    name: 'new reference per attempt',
    hunt: PAYMENT_SEEDS,
    edits: [
      { file: ATTEMPT, find: 'charge({ reference: key,', replace: 'charge({ reference: `${key}/${claim.epoch}`,' },
      { file: ATTEMPT, find: 'lookUp(claim.key)', replace: 'lookUp(`${claim.key}/${claim.epoch}`)' },
    ],
  },
  {
    name: 'new transaction id per attempt',
    hunt: DISTRIBUTED_FAULTS,
    edits: [
      {
        file: ATTEMPT,
        find: "? { state: 'COMPLETED', transactionId: claim.transactionId }",
        replace:
          "? { state: 'COMPLETED', transactionId: `${claim.transactionId}${claim.epoch > 1 ? claim.epoch : ''}` }",
      },
    ],
  },
  {
    name: 'takeover without look-up',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: ATTEMPT,
        find: "if (origin !== 'first claim') {",
        replace: "if (origin !== 'first claim' && leases === undefined) {",
      },
    ],
  },
  {
    name: "takeover with the request's amount",
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: PAYMENTS,
        find: 'return finishTakeover(claimed.claim, askedAt, fingerprint);',
        replace: 'return finishTakeover({ ...claimed.claim, ...money }, askedAt, fingerprint);',
      },
    ],
  },
  {
    name: 'takeover of a live lease, in SQLite',
    hunt: EMBEDDED_CONTRACTS,
    edits: [
      {
        file: SQLITE_STATEMENTS,
        find: "state = 'PROCESSING' AND lease_until <= ? AND processor IN (?, ?)\n  RETURNING *",
        replace: "state = 'PROCESSING' AND ? > 0 AND processor IN (?, ?)\n  RETURNING *",
      },
    ],
  },
  {
    name: 'takeover of a live lease, in PostgreSQL',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: POSTGRES_STATEMENTS,
        find: ' AND lease_until <= clock_timestamp() AND processor IN ($4, $5)',
        replace: ' AND processor IN ($4, $5)',
      },
    ],
  },
  {
    name: "takeover of another processor's payment, in PostgreSQL",
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      { file: POSTGRES_STATEMENTS, find: 'AND processor IN ($4, $5)', replace: "AND ($4::text > '' OR $5::text > '')" },
    ],
  },
  {
    name: 'claim after expiry accepted',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: PAYMENTS,
        find: '        claimBy,\n      })',
        replace: '        claimBy: claimBy + 3_600_000,\n      })',
      },
    ],
  },
  {
    name: 'claim below the horizon: a removed key can be paid again',
    hunt: HORIZON_CONTRACTS,
    edits: [
      { file: SQLITE_STATEMENTS, find: 'now <= claimBefore && !mayBeRemoved(key)', replace: 'now <= claimBefore' },
    ],
  },
  {
    name: 'a first claim whose row may be lost charges without a look-up',
    hunt: { by: 'contracts', file: 'test/adapters/distributed-replaced.test.ts' },
    edits: [
      {
        file: 'src/deployments/distributed/postgres/ledger.ts',
        find: "inserted.mayBeLost ? 'taken over' : 'claimed'",
        replace: "inserted.mayBeLost ? 'claimed' : 'claimed'",
      },
    ],
  },
  {
    name: 'a claim on a timeline that nobody has written down yet',
    hunt: { by: 'contracts', file: 'test/adapters/distributed-replaced.test.ts' },
    edits: [
      {
        file: POSTGRES_STATEMENTS,
        find: '      AND ${ON_KNOWN_TIMELINE}\n    ON CONFLICT',
        replace: '    ON CONFLICT',
      },
    ],
  },
  {
    name: 'age by the wall clock: a payment that a clock set back settled is removed at once',
    hunt: HORIZON_CONTRACTS,
    edits: [
      { file: 'src/deployments/embedded/payment-horizon-writes.ts', find: 'settled_hour <= hour && ', replace: '' },
    ],
  },
  {
    name: 'replay after its expiry',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/deployments/embedded/key-store.ts',
        find: '!record || record.expiresAt <= clock.now()',
        replace: '!record || (!record.final && record.expiresAt <= clock.now())',
      },
    ],
  },
  {
    name: 'absent record called invalid without looking at the row',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: PAYMENTS,
        find: 'return payFromRow(key, owner, fingerprint);',
        replace: "return leaseMs > 0 ? { state: 'invalid key' } : payFromRow(key, owner, fingerprint);",
      },
    ],
  },
  {
    name: 'a lock is told as a conflict without looking at the row',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: PAYMENTS,
        find: 'return conflict(key, fingerprint, begun);',
        replace: 'return leaseMs > 0 ? inProgress(begun, fingerprint) : conflict(key, fingerprint, begun);',
      },
    ],
  },
  {
    name: 'Retry-After rounded up beyond the remaining lease',
    hunt: CONFLICT_CONTRACTS,
    edits: [
      {
        file: ANSWERS,
        find: 'Math.floor(running.remainingMs / 1000)',
        replace: 'Math.ceil(running.remainingMs / 1000)',
      },
    ],
  },
  {
    name: 'a lock is released before its row is abandoned',
    hunt: CONFLICT_CONTRACTS,
    edits: [
      {
        file: ATTEMPT,
        find: `    const isGivenUp = await ledger.abandon(claim, recoverAfterMs(ageMs), mark).catch(ignoreUnavailable);
    await endings.release(claim.key, claim.owner);
`,
        replace: `    await endings.release(claim.key, claim.owner);
    const isGivenUp = await ledger.abandon(claim, recoverAfterMs(ageMs), mark).catch(ignoreUnavailable);
`,
      },
    ],
  },
  {
    name: 'lease by wall clock',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/payments/leases.ts',
        find: 'lease.endsAt - clock.monotonic() > ms',
        replace: 'lease.endsAt - (clock.now() - wallAhead) > ms',
      },
      {
        file: 'src/payments/leases.ts',
        find: '  let cancelRenewal:',
        replace: '  const wallAhead = clock.now() - clock.monotonic();\n  let cancelRenewal:',
      },
    ],
  },
  {
    name: "a renewal's refusal is ignored",
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/payments/leases.ts',
        find: 'if (await ledger.renew(lease.fence, leaseMs)) lease.endsAt = askedAt + leaseMs;\n    else lease.fencedOff = true;',
        replace: 'await ledger.renew(lease.fence, leaseMs);\n    lease.endsAt = askedAt + leaseMs;',
      },
    ],
  },
  {
    name: 'the charge is sent although the lease is lost',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: ATTEMPT,
        find: 'if (!(await stillOurs()))',
        replace: 'if (!(await stillOurs()) && leases === undefined)',
      },
    ],
  },
  {
    name: "the charge is sent again after the processor's memory",
    hunt: PAYMENT_SEEDS,
    edits: [{ file: ATTEMPT, find: '(ageMs >= 0 && ageMs < limitMs)', replace: 'ageMs > -1e12' }],
  },
  {
    name: 'a payment is marked unsent although an earlier attempt may have sent it',
    hunt: PAYMENT_SEEDS,
    edits: [
      { file: ATTEMPT, find: "result.state === 'not sent' && claim.unsent)", replace: "result.state === 'not sent')" },
    ],
  },
  {
    name: 'a takeover does not end the mark of an unsent payment',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/ledger.ts',
        find: 'row.unsent_epoch === row.epoch - 1',
        replace: 'row.unsent_epoch !== null',
      },
    ],
  },
  {
    name: 'a takeover does not end the mark, in PostgreSQL',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/ledger.ts',
        find: 'row.unsent_epoch === row.epoch - 1',
        replace: 'row.unsent_epoch !== null',
      },
    ],
  },
  {
    name: 'a takeover does not end the mark, in SQLite',
    hunt: EMBEDDED_CONTRACTS,
    edits: [
      { file: SQLITE_STATEMENTS, find: 'row.unsent_epoch === row.epoch - 1', replace: 'row.unsent_epoch !== null' },
    ],
  },
  {
    name: 'a payment is told to be unsent although its row could not be marked',
    hunt: UNSENT_PROTOCOL,
    edits: [{ file: ATTEMPT, find: 'return unsent && isGivenUp;', replace: 'return unsent || isGivenUp;' }],
  },
  {
    name: 'recovery runs once and never again',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: 'src/payments/recovery.ts',
        find: 'if (!stopped) cancelNextRound',
        replace: 'if (!stopped && leaseMs === 0) cancelNextRound',
      },
    ],
  },
  {
    name: 'fail open: pays when the key store is down',
    hunt: PAYMENT_SEEDS,
    edits: [
      {
        file: PAYMENTS,
        find: 'return lookAtRow(key, fault);\n    });\n    switch',
        replace: "return { state: 'taken' as const, claimBy: askedAt + leaseMs };\n    });\n    switch",
      },
    ],
  },
  {
    name: 'fail open: writes when the cache cannot be marked',
    hunt: TRANSACTION_SEEDS,
    edits: [
      {
        file: TRANSACTIONS,
        find: "throw new StoreUnavailable('unchanged', 'the cache could not be marked before the change', fault);",
        replace: 'return { id, token: `no mark: ${fault}`, writeBy: undefined };',
      },
      {
        file: TRANSACTIONS,
        find: "throw new StoreUnavailable('unknown', 'the cache could not be updated after the change', fault);",
        replace: 'ignore();',
      },
    ],
  },
  {
    name: 'no write mark',
    hunt: TRANSACTION_SEEDS,
    edits: [
      {
        file: EMBEDDED_CACHE,
        find: '      if (marked) marked.marks.add(token);\n      else standing.set(id, { marks: new Set([token]), newest: undefined });\n',
        replace: '      if (marked) marked.marks.add(token);\n',
      },
    ],
  },
  {
    name: 'no write mark, in Redis',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: `${SCRIPTS}/cache-mark.lua`,
        find: "redis.call('HSET', KEYS[3], 'mark:' .. ARGV[1], string.format('%.0f', now + ARGV[2]) .. ' ' .. source)\n",
        replace: '',
      },
    ],
  },
  {
    name: 'fill without token',
    hunt: TRANSACTION_SEEDS,
    edits: [
      {
        file: SIMULATED_CACHE,
        find: 'if (held?.token !== token || held.run !== this.run) return false;',
        replace: "if (token === '') return false;",
      },
    ],
  },
  {
    name: 'fill without token, in Redis',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: `${SCRIPTS}/cache-fill.lua`,
        find: 'if held[1] ~= ARGV[1] or held[2] ~= source then return 0 end',
        replace: '',
      },
    ],
  },
  {
    name: 'the first of two writes puts its version into the cache',
    hunt: TRANSACTION_SEEDS,
    edits: [{ file: EMBEDDED_CACHE, find: 'if (marked.marks.size > 0) return;', replace: '' }],
  },
  {
    name: 'entries of a replaced master count, in Redis',
    hunt: DISTRIBUTED_FAULTS,
    edits: [{ file: `${SCRIPTS}/cache-look-up.lua`, find: 'if entry[1] == source then', replace: 'if entry[1] then' }],
  },
  {
    name: 'a fill is accepted with a token from before a failover, in Redis',
    hunt: CACHE_FAILOVER_CONTRACTS,
    edits: [
      { file: `${SCRIPTS}/cache-fill.lua`, find: ' or held[2] ~= source then return 0', replace: ' then return 0' },
    ],
  },
  {
    name: 'what was written to a replaced database is stored, in Redis',
    hunt: CACHE_FAILOVER_CONTRACTS,
    edits: [
      {
        file: `${SCRIPTS}/cache-lift.lua`,
        find: "mark and string.match(mark, '^%d+ (.*)$') == source and 1 or 0",
        replace: 'mark and 1 or 0',
      },
    ],
  },
  {
    name: 'an orphaned write mark is renewed by later writes, in Redis',
    hunt: { by: 'contracts', file: 'test/adapters/redis-write-marks.test.ts' },
    edits: [{ file: `${SCRIPTS}/cache-mark.lua`, find: 'if tonumber(ends) <= now then', replace: 'if not ends then' }],
  },
  {
    name: 'the write mark is lifted after a write of unknown outcome',
    hunt: { by: 'contracts', file: 'test/protocol/unknown-write.test.ts' },
    edits: [
      {
        file: TRANSACTIONS,
        find: 'if (!isUnknown(fault)) await cache.evict(mark).catch(ignore);',
        replace: 'if (!isUnknown(fault) || mark) await cache.evict(mark).catch(ignore);',
      },
    ],
  },
  {
    name: 'version moved outside the commit',
    hunt: DISTRIBUTED_FAULTS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/transaction-statements.ts',
        find: ', version = version + cardinality($1::text[])\n',
        replace: '\n',
      },
      {
        file: 'src/deployments/distributed/postgres/transaction-store.ts',
        find: '    const rows = await database.write<TransactionRow>(statements.CREATE, [',
        replace: `    const text = 'UPDATE idempay.transaction_list SET version = version + $1';
    await database.write({ name: 'next_version', text }, [transactions.length]);
    const rows = await database.write<TransactionRow>(statements.CREATE, [`,
      },
    ],
  },
  {
    name: "the list's version is kept for later requests",
    hunt: TRANSACTION_SEEDS,
    edits: [
      {
        file: 'src/deployments/embedded/transaction-store.ts',
        find: 'listVersion = Math.max(listVersion, version);',
        replace: 'listVersion = Math.min(listVersion, version);',
      },
    ],
  },
  {
    name: 'the list tag is extended over removals',
    hunt: TRANSACTION_SEEDS,
    edits: [
      {
        file: 'src/transactions/list-tags.ts',
        find: 'await snapshot.firstRemovedSince(known.version)',
        replace: 'Number.POSITIVE_INFINITY',
      },
    ],
  },
  {
    name: 'claimBy is reckoned from the reply, in Redis',
    hunt: DISTRIBUTED_CONTRACTS,
    edits: [
      {
        file: 'src/deployments/distributed/redis/key-store.ts',
        find: 'claimBy: askedAt + Number(reply[1])',
        replace: 'claimBy: clock.monotonic() + Number(reply[1])',
      },
    ],
  },
  {
    name: 'the database clock is late by one round trip',
    hunt: DATABASE_CLOCK_TESTS,
    edits: [
      {
        file: 'src/deployments/distributed/postgres/database-clock.ts',
        find: 'this.offsetMs = row.now - answeredAt;',
        replace: 'this.offsetMs = row.now - askedAt;',
      },
    ],
  },
];
