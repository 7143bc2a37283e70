// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

import { type Mutant, mutant, mutantsOf } from '../mutant.js';

export const PAYMENT_STORE_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('src/deployments/distributed/postgres/ledger-statements.ts', {
    'no unique row: every claim is granted, in PostgreSQL': [
      'ON CONFLICT (key) DO NOTHING',
      `ON CONFLICT (key) DO UPDATE
      SET state = 'PROCESSING', epoch = 1, owner = excluded.owner, transaction_id = excluded.transaction_id,
        lease_until = excluded.lease_until, recover_at = excluded.recover_at, claimed_at = excluded.claimed_at,
        settled_at = NULL, expires_at = NULL, reason = NULL`,
    ],
    'settle without epoch, in PostgreSQL': ['payment.epoch = settled.epoch AND ', ''],
    'settle without owner, in PostgreSQL': [
      ` AND payment.owner = settled.owner
`,
      `
`,
    ],
    'takeover of a live lease, in PostgreSQL': [
      ' AND lease_until <= clock_timestamp() AND processor IN ($4, $5)',
      ' AND processor IN ($4, $5)',
    ],
    "takeover of another processor's payment, in PostgreSQL": [
      'AND processor IN ($4, $5)',
      "AND ($4::text > '' OR $5::text > '')",
    ],
    'a claim on a timeline that is not recorded yet, in PostgreSQL': [
      `      AND \${ON_KNOWN_TIMELINE}
    ON CONFLICT`,
      '    ON CONFLICT',
    ],
  }),
  ...mutantsOf('src/deployments/embedded/payment-writes.ts', {
    'no unique row: every claim is granted, in SQLite': [
      'ON CONFLICT (key) DO NOTHING',
      `ON CONFLICT (key) DO UPDATE
  SET state = 'PROCESSING', epoch = 1, owner = excluded.owner, lease_until = excluded.lease_until,
    transaction_id = excluded.transaction_id, settled_at = NULL, expires_at = NULL, reason = NULL`,
    ],
    'settle without owner, in SQLite': [
      `settled_hour = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'\`;`,
      `settled_hour = ?
  WHERE key = ? AND epoch = ? AND ? > '' AND state = 'PROCESSING'\`;`,
    ],
    'takeover of a live lease, in SQLite': [
      `state = 'PROCESSING' AND lease_until <= ? AND processor IN (?, ?)
  RETURNING *`,
      `state = 'PROCESSING' AND ? > 0 AND processor IN (?, ?)
  RETURNING *`,
    ],
    'a key below the retention horizon can be claimed again, in SQLite': [
      'now <= claimBefore && !mayBeRemoved(key)',
      'now <= claimBefore',
    ],
    'a takeover keeps the unsent mark, in SQLite': ['row.unsent_epoch === row.epoch - 1', 'row.unsent_epoch !== null'],
  }),
  ...mutantsOf('src/deployments/distributed/postgres/ledger.ts', {
    'a claim that inserted no row is granted, in PostgreSQL': [
      'const row = inserted.get(attempt.owner);',
      'const row = inserted.get(attempt.owner) ?? { mayBeLost: false, ageMs: 0 };',
    ],
    'a lost reply of a settlement counts as its commit, in PostgreSQL': [
      `      const { claim } = settlement;
`,
      `      const { claim } = settlement;
      if (claim.epoch > 0) return Date.now() + settlement.idempotencyTtlMs;
`,
    ],
    'a lost reply of a claim counts as its commit, in PostgreSQL': [
      'return await claims.add(attempt);',
      `return await claims
        .add(attempt)
        .catch((fault) => (isUnknown(fault) ? { mayBeLost: false, ageMs: 0 } : Promise.reject(fault)));`,
    ],
    'a first claim whose earlier row may be lost charges without a look-up, in PostgreSQL': [
      "inserted.mayBeLost ? 'taken over' : 'claimed'",
      "inserted.mayBeLost ? 'claimed' : 'claimed'",
    ],
    'a takeover keeps the unsent mark, in PostgreSQL': [
      'row.unsent_epoch === row.epoch - 1',
      'row.unsent_epoch !== null',
    ],
  }),
  mutant(
    'settle without epoch, in SQLite (rows have the process as owner, or the owner fences alone)',
    [
      'src/deployments/embedded/payment-writes.ts',
      `settled_hour = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'\`;`,
      `settled_hour = ?
  WHERE key = ? AND ? > 0 AND owner = ? AND state = 'PROCESSING'\`;`,
    ],
    [
      'proof/simulator/models/sqlite-file.ts',
      'const result = (operation as (given: unknown) => unknown)(input);',
      `const isOwned = input.owner !== undefined && name !== 'resolve';
          const given = isOwned ? { ...input, owner: line.caller } : input;
          const text = JSON.stringify((operation as (given: unknown) => unknown)(given) ?? null);
          const result = JSON.parse(text, (member, value) => (isOwned && member === 'owner' ? input.owner : value));`,
    ],
  ),
  ...mutantsOf('src/deployments/embedded/key-store.ts', {
    'unlock without token, in memory': [
      'locks.get(key)?.owner === owner && locks.delete(key)',
      'locks.get(key)?.owner !== undefined && owner !== undefined && locks.delete(key)',
    ],
    'a record is replayed after its expiry, in memory': [
      '!record || record.expiresAt <= clock.now()',
      '!record || (!record.final && record.expiresAt <= clock.now())',
    ],
  }),
  ...mutantsOf('src/deployments/distributed/redis/scripts/release.lua', {
    'unlock without token, in Redis': ['if lock[1] ~= ARGV[1] then', 'if not lock[1] then'],
  }),
  ...mutantsOf('src/deployments/embedded/payment-horizon-writes.ts', {
    'age by the wall clock: a payment settled by a late clock is removed at once, in SQLite': [
      'settled_hour <= hour && ',
      '',
    ],
  }),
  ...mutantsOf('src/deployments/distributed/redis/key-store.ts', {
    'claimBy counts from the reply, in Redis': [
      'claimBy: askedAt + Number(reply[1])',
      'claimBy: clock.monotonic() + Number(reply[1])',
    ],
  }),
  ...mutantsOf('src/deployments/distributed/postgres/database-clock.ts', {
    'the database clock is late by one round trip, in PostgreSQL': [
      'this.offsetMs = row.now - answeredAt;',
      'this.offsetMs = row.now - askedAt;',
    ],
  }),
];
