// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

const POSTGRES = 'src/stores/postgres';
const REDIS = 'src/stores/redis/scripts';
const EMBEDDED = 'src/stores/embedded';

/**
 * A mistake in each condition of a statement, of a script or of a row's look that names the client, a time or the incarnation of the
 * database, as in `mutants.ts`. Each is given to the tests of its room (`checks.ts`).
 */
export const CONDITIONS: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>> = {
  [`${POSTGRES}/payments/ledger-statements.ts`]: {
    'condition: a claim comes after its last moment, in PostgreSQL':
      'WHERE clock_timestamp() <= to_timestamp(claim_before / 1000)\n → WHERE claim_before > 0\n',
    'condition: a key below the horizon is claimed, in PostgreSQL':
      'AND key >= (SELECT keys_before FROM idempay.payment_horizon)\n      AND processor → AND processor',
    'condition: the claim of a lost row begins anew, in PostgreSQL':
      "THEN least(clock_timestamp(), to_timestamp(${timeOfMs('key')} / 1000.0)) → THEN clock_timestamp()",
    'condition: nothing waits after rows were lost, in PostgreSQL':
      'return `clock_timestamp() >= adopted_at + → return `clock_timestamp() >= adopted_at - ',
    'condition: an attempt follows a decline of any age, in PostgreSQL':
      "${ageOfHour('previous')} < ${lateMs})) → ${ageOfHour('previous')} >= 0))",
    'condition: time that nobody saw ages a decline unconfirmed, in PostgreSQL':
      'WHERE younger.hour > old.hour AND younger.confirmed) → WHERE younger.hour > old.hour)',
    'condition: a cancellation comes after its last moment, in PostgreSQL':
      'WHERE at <= to_timestamp($5::float8 / 1000) → WHERE $5::float8 > 0',
    'condition: a key below the horizon is closed, in PostgreSQL':
      'AND $1::uuid >= (SELECT keys_before FROM idempay.payment_horizon)\n      AND ${ENDS_IN_TIME} → AND ${ENDS_IN_TIME}',
    'condition: a cancellation on a database that was not checked, in PostgreSQL':
      '      AND ${ON_KNOWN_DATABASE}\n      AND ($9::uuid →       AND ($9::uuid',
    'condition: an attempt with a record is claimed after its last moment, in PostgreSQL':
      'WHERE at <= to_timestamp($11::float8 / 1000) → WHERE $11::float8 > 0',
    "condition: another client's row is told as none, in PostgreSQL":
      ' AND ($3::text IS NULL OR client IS NULL OR client = $3)) →  AND $3::text IS NULL)',
    'condition: a key that was not checked is said to have ended unpaid, in PostgreSQL':
      '      AND ${ON_KNOWN_DATABASE}\n      AND NOT EXISTS (\n        SELECT FROM idempay.payments WHERE key = $1 →       AND NOT EXISTS (\n        SELECT FROM idempay.payments WHERE key = $1',
    'condition: a key of this moment is said to have ended unpaid, in PostgreSQL':
      "$2::float8)::bigint')} → $2::float8 * 0)::bigint')}",
    'condition: recovery takes a live lease, in PostgreSQL':
      'AND recover_at <= now() AND lease_until <= clock_timestamp() → AND recover_at <= now()',
    'condition: recovery takes what is not due, in PostgreSQL':
      'AND recover_at <= now() AND lease_until → AND lease_until',
    'condition: an attempt renews the lease of a later epoch, in PostgreSQL':
      'payment.epoch = fence.epoch AND payment.owner = fence.owner\n      AND payment.${UNDER_WAY}\n    RETURNING payment.key, payment.owner → payment.owner = fence.owner\n      AND payment.${UNDER_WAY}\n    RETURNING payment.key, payment.owner',
    'condition: an attempt renews the lease of another owner, in PostgreSQL':
      'payment.epoch = fence.epoch AND payment.owner = fence.owner\n      AND payment.${UNDER_WAY}\n    RETURNING payment.key, payment.owner → payment.epoch = fence.epoch\n      AND payment.${UNDER_WAY}\n    RETURNING payment.key, fence.owner',
    'condition: an attempt gives up the lease of a later epoch, in PostgreSQL':
      'payment.epoch = fence.epoch AND payment.owner = fence.owner\n      AND payment.${UNDER_WAY}\n    RETURNING fence.key → payment.owner = fence.owner\n      AND payment.${UNDER_WAY}\n    RETURNING fence.key',
    'condition: an attempt gives up the lease of another owner, in PostgreSQL':
      'payment.epoch = fence.epoch AND payment.owner = fence.owner\n      AND payment.${UNDER_WAY}\n    RETURNING fence.key → payment.epoch = fence.epoch\n      AND payment.${UNDER_WAY}\n    RETURNING fence.key',
    'condition: an operator resolves under a live lease, in PostgreSQL':
      'IS_RESOLVABLE = `${UNDER_WAY} AND lease_until <= clock_timestamp()\n → IS_RESOLVABLE = `${UNDER_WAY}\n',
    'condition: an operator resolves while the processor may still tell, in PostgreSQL':
      '= 0 THEN 0 ELSE $5::float8 END → = 0 THEN 0 ELSE $5::float8 * 0 END',
    'condition: an operator resolves an unsent payment at once, in PostgreSQL':
      'CASE WHEN ${UNSENT_OF_NOW} = epoch THEN $6::float8 WHEN → CASE WHEN ${UNSENT_OF_NOW} = epoch THEN $6::float8 * 0 WHEN',
    'condition: an operator resolves a pending payment before its time, in PostgreSQL':
      'least(pending_until + ${RESOLVABLE → least(pending_until - ${RESOLVABLE',
    'condition: an operator resolves a pending payment that is young, in PostgreSQL':
      'claimed_at + ${RESOLVABLE_AFTER_CLAIM_MS} → claimed_at + ${RESOLVABLE_AFTER_UNTIL_MS}',
    'condition: an operator resolves a pending payment as any other, in PostgreSQL':
      'CASE WHEN pending_until IS NULL OR → CASE WHEN pending_until IS NULL OR state IS NOT NULL OR',
    'condition: a claim takes a pending payment over, in PostgreSQL':
      '(pending_until IS NULL OR $5::boolean) → $5::boolean IS NOT NULL',
    'condition: recovery takes a pending payment as an abandoned one, in PostgreSQL':
      '${DUE_WHILE} AND pending_until IS NULL AND processor = $3 → ${DUE_WHILE} AND processor = $3',
    'condition: a pending payment counts as abandoned, in PostgreSQL':
      "WHERE state = 'PROCESSING' AND pending_until IS NULL ORDER → WHERE state = 'PROCESSING' ORDER",
    'condition: a payment that is not pending counts as pending, in PostgreSQL':
      "WHERE state = 'PROCESSING' AND pending_until IS NOT NULL ORDER → WHERE state = 'PROCESSING' ORDER",
    'condition: an ending takes a live lease, in PostgreSQL':
      'processor = ANY ($4::text[]) AND lease_until <= clock_timestamp()\n → processor = ANY ($4::text[])\n',
    "condition: an ending takes another processor's payment, in PostgreSQL":
      'processor = ANY ($4::text[]) AND lease_until <= clock_timestamp()\n → cardinality($4::text[]) > 0 AND lease_until <= clock_timestamp()\n',
    'condition: an ending takes a payment that is final, in PostgreSQL':
      'WHERE key = $1 AND ${UNDER_WAY} AND processor = ANY → WHERE key = $1 AND processor = ANY',
    'condition: an ending of unsent payments takes what may have been sent, in PostgreSQL':
      '(NOT $6::boolean OR ${UNSENT_OF_NOW} = epoch) → $6::boolean IS NOT NULL',
    'condition: an ending of unsent payments takes what a lost takeover may have sent, in PostgreSQL':
      '(NOT $6::boolean OR ${UNSENT_OF_NOW} = epoch) → (NOT $6::boolean OR unsent_epoch = epoch)',
    'condition: an ending on a database that was not checked, in PostgreSQL':
      '= epoch)\n      AND ${ON_KNOWN_DATABASE}\n → = epoch)\n',
    "condition: another processor's pending payment is asked about, in PostgreSQL":
      "pending_until IS NOT NULL AND processor = $1 AND → pending_until IS NOT NULL AND $1 <> '' AND",
    'condition: a payment that is not pending is asked about, in PostgreSQL':
      '${DUE_WHILE} AND pending_until IS NOT NULL AND processor = $1 → ${DUE_WHILE} AND processor = $1',
    'condition: a pending payment is asked about before its time, in PostgreSQL':
      'processor = $1 AND recover_at <= now()\n → processor = $1\n',
    'condition: a pending payment is asked about under a live lease, in PostgreSQL':
      'recover_at <= now()\n        AND lease_until <= clock_timestamp()\n → recover_at <= now()\n',
    'condition: the end of a final payment moves, in PostgreSQL':
      'WHERE key = $1 AND ${UNDER_WAY} AND pending_until IS NOT NULL → WHERE key = $1 AND pending_until IS NOT NULL',
    'condition: a payment becomes pending because its end moves, in PostgreSQL':
      'WHERE key = $1 AND ${UNDER_WAY} AND pending_until IS NOT NULL → WHERE key = $1 AND ${UNDER_WAY}',
    'condition: an attempt leaves the payment of a later epoch, in PostgreSQL':
      'payment.epoch = leaving.epoch AND payment.owner = leaving.owner → payment.owner = leaving.owner',
    'condition: an attempt leaves the payment of another owner, in PostgreSQL':
      'payment.epoch = leaving.epoch AND payment.owner = leaving.owner → payment.epoch = leaving.epoch',
    'condition: an attempt leaves a payment that is final, in PostgreSQL':
      'payment.owner = leaving.owner\n      AND payment.${UNDER_WAY}\n → payment.owner = leaving.owner\n',
    'condition: an attempt before that was pending is told as pending, in PostgreSQL':
      "CASE WHEN previous.state = 'PROCESSING' AND previous.pending_until IS NOT NULL THEN → CASE WHEN previous.pending_until IS NOT NULL THEN",
    'condition: an attempt before that is pending is told as under way, in PostgreSQL':
      "CASE WHEN previous.state = 'PROCESSING' AND previous.pending_until IS NOT NULL THEN → CASE WHEN false THEN",
  },
  [`${POSTGRES}/connection/database-identity-statements.ts`]: {
    'condition: a claim on a timeline that was not written down, in PostgreSQL':
      '\n          AND known.timeline = idempay.timeline()) → )',
    'condition: the first server counts as a replacement, in PostgreSQL':
      'look_up_before = CASE WHEN deployment.timeline IS NULL THEN → look_up_before = CASE WHEN false THEN',
    'condition: a second loss looks up fewer keys, in PostgreSQL':
      'ELSE greatest(look_up_before, → ELSE coalesce(NULL,',
  },
  [`${POSTGRES}/payments/payment-history-statements.ts`]: {
    "condition: a list has other clients' payments, in PostgreSQL":
      " AND ($8::text IS NULL OR client = $8) →  AND ($8::text IS NULL OR $8 <> '')",
    "condition: a client's list of pending payments has those that were, in PostgreSQL":
      "($4 = 'PENDING' AND state = 'PROCESSING' AND pending_until IS NOT NULL) → ($4 = 'PENDING' AND pending_until IS NOT NULL)",
    "condition: a client's list of pending payments has others, in PostgreSQL":
      "($4 = 'PENDING' AND state = 'PROCESSING' AND pending_until IS NOT NULL) → ($4 = 'PENDING' AND state = 'PROCESSING')",
    'condition: a list of payments under way lacks the pending ones, in PostgreSQL':
      "newestOf('newest_processing', ROWS_OF.PROCESSING, ROWS_OF.PENDING) → newestOf('newest_processing', ROWS_OF.PROCESSING)",
    'condition: a list of pending payments has others, in PostgreSQL':
      "PENDING: `${RANGE} AND state = 'PROCESSING' AND pending_until IS NOT NULL` → PENDING: `${RANGE} AND state = 'PROCESSING'`",
    "condition: another client's attempt counts as the newest, in PostgreSQL":
      'client IS NOT DISTINCT FROM $2 ORDER → $2::text IS NOT DISTINCT FROM $2 ORDER',
    'condition: an export begins before its day, in PostgreSQL':
      "AND payments.settled_at >= 'epoch'::timestamptz + $3::float8 → AND payments.settled_at >= 'epoch'::timestamptz + $3::float8 * 0",
    'condition: an export goes on after its day, in PostgreSQL':
      "AND payments.settled_at < 'epoch'::timestamptz + $4::float8 → AND payments.settled_at < 'epoch'::timestamptz + $4::float8 * 2",
  },
  [`${POSTGRES}/payments/retention-statements.ts`]: {
    'condition: time that nobody saw ages payments unconfirmed, in PostgreSQL': 'FILTER (WHERE confirmed) OVER → OVER',
    'condition: rows are removed while claims may not know the horizon, in PostgreSQL':
      "WHERE seen_at IS NULL OR seen_at <= clock_timestamp() - $2::float8 * interval '1 millisecond' → WHERE $2::float8 > 0",
    'condition: a young payment is removed, in PostgreSQL':
      'SELECT key, settled_at, settled_hour <= $4::integer AND expires_at <= now() → SELECT key, settled_at, $4::integer > 0 AND expires_at <= now()',
    'condition: a payment that is still repeated is removed, in PostgreSQL':
      'settled_hour <= $4::integer AND expires_at <= now() AND CASE → settled_hour <= $4::integer AND CASE',
    'condition: a key above the horizon loses its row, in PostgreSQL':
      'THEN key < (SELECT removable_before FROM idempay.payment_horizon) → THEN key IS NOT NULL',
    "condition: another client's attempts keep an order's rows, in PostgreSQL":
      'PARTITION BY payment.reference, payment.client → PARTITION BY payment.reference',
    'condition: no key may have been removed, in PostgreSQL':
      'SELECT $1::uuid < keys_before AS → SELECT $1::uuid IS NULL AS',
    'condition: a restored database takes the time that was seen elsewhere, in PostgreSQL':
      'CASE WHEN until_ms < $1::bigint THEN until_ms → CASE WHEN false THEN until_ms',
  },
  [`${POSTGRES}/transactions/transaction-statements.ts`]: {
    'condition: a create on a database that was not checked, in PostgreSQL':
      'WHERE ${ON_KNOWN_DATABASE}\n      RETURNING last_id → WHERE true\n      RETURNING last_id',
    'condition: a create with a key on a database that was not checked, in PostgreSQL':
      'WHERE ${ON_KNOWN_DATABASE} FOR UPDATE → FOR UPDATE',
    "condition: another client's key of a create is known, in PostgreSQL":
      'WHERE client = $1 AND endpoint = $2 AND key = $3 AND expires_at → WHERE $1::text IS NOT NULL AND endpoint = $2 AND key = $3 AND expires_at',
    'condition: a key of a create is known after its life, in PostgreSQL':
      'AND key = $3 AND expires_at > clock_timestamp() → AND key = $3',
    'condition: a key of a create is swept before its end, in PostgreSQL':
      'WHERE expires_at <= now() ORDER BY → WHERE true ORDER BY',
  },
  [`${REDIS}/begin.lua`]: {
    "condition: another client's key is begun, in Redis":
      "if ARGV[5] ~= '' and client ~= '' and client ~= ARGV[5] then → if ARGV[5] == 'x y' then",
    "condition: another client's lock is told, in Redis":
      "local client = record[5] or lock[4] or '' → local client = record[5] or ''",
    'condition: the lock of another owner is taken, in Redis':
      'if lock[1] and lock[1] ~= ARGV[1] then → if lock[1] == 1 then',
    'condition: a record ends before its lock, in Redis':
      "if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis → if false then redis",
    'condition: a begun key of a reference has no client, in Redis': "  client = ARGV[8]\n →   client = ''\n",
  },
  [`${REDIS}/issue.lua`]: {
    "condition: an issued key is everybody's, in Redis":
      "'value', ARGV[1], 'client', ARGV[3]) → 'value', ARGV[1], 'client', '')",
    'condition: a key that is issued again ends as before, in Redis':
      "if value == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end → ",
  },
  [`${REDIS}/finish.lua`]: {
    'condition: a finish ends the lock of another owner, in Redis':
      'if lock[1] == ARGV[1] then redis → if lock[1] then redis',
  },
  [`${REDIS}/forget.lua`]: {
    'condition: a closed payment ends the lock of another owner, in Redis':
      'if lock[1] == ARGV[1] then redis → if lock[1] then redis',
  },
  [`${EMBEDDED}/payments/ledger.ts`]: {
    "condition: another client's row is told as none, in SQLite":
      ' AND (?3 IS NULL OR client IS NULL OR client = ?3)) →  AND ?3 IS NULL)',
    'condition: a key whose row may be lost is said to have ended unpaid, in SQLite':
      'WHERE ?1 >= look_up_before AND → WHERE',
    'condition: a key whose row may be removed is said to have ended unpaid, in SQLite':
      ' AND ?1 >= keys_before AND ?1 < ?2 →  AND ?1 < ?2',
    'condition: a key of this moment is said to have ended unpaid, in SQLite':
      'lowestKeyAt(clock.now() - lifeMs) → lowestKeyAt(clock.now())',
    'condition: a pending payment counts as abandoned, in SQLite':
      "WHERE state = 'PROCESSING' AND pending_until IS NULL\n → WHERE state = 'PROCESSING'\n",
    'condition: a payment that is not pending counts as pending, in SQLite':
      "WHERE state = 'PROCESSING' AND pending_until IS NOT NULL\n → WHERE state = 'PROCESSING'\n",
    "condition: another client's payment is found, in SQLite":
      'if (!row || row.refund_of !== null || !isVisibleTo(client, row.client)) return → if (!row || row.refund_of !== null) return',
    'the key of a refund is found as that of a payment, in SQLite': '!row || row.refund_of !== null || → !row ||',
  },
  [`${EMBEDDED}/payments/payment-row.ts`]: {
    'condition: a pending payment is found as abandoned, in SQLite':
      'if (isPending(row)) return → if (isPending(row) && row.epoch > 9) return',
  },
  [`${EMBEDDED}/payments/ledger-statements.ts`]: {
    'condition: recovery takes a live lease, in SQLite':
      'AND recover_at <= ? AND lease_until <= ?\n → AND recover_at <= ? AND ? > 0\n',
    'condition: recovery takes what is not due, in SQLite':
      'AND recover_at <= ? AND lease_until <= ?\n → AND ? > 0 AND lease_until <= ?\n',
    'condition: an attempt renews the lease of a later epoch, in SQLite':
      'SET lease_until = ?, recover_at = ?\n  WHERE key = ? AND epoch = ? AND → SET lease_until = ?, recover_at = ?\n  WHERE key = ? AND ? > 0 AND',
    'condition: an attempt renews the lease of another owner, in SQLite':
      "SET lease_until = ?, recover_at = ?\n  WHERE key = ? AND epoch = ? AND owner = ? → SET lease_until = ?, recover_at = ?\n  WHERE key = ? AND epoch = ? AND ? <> ''",
    'condition: an attempt gives up the lease of a later epoch, in SQLite':
      "events = ${eventsWith('epoch', '?')}\n  WHERE key = ? AND epoch = ? AND → events = ${eventsWith('epoch', '?')}\n  WHERE key = ? AND ? > 0 AND",
    'condition: an attempt gives up the lease of another owner, in SQLite':
      "events = ${eventsWith('epoch', '?')}\n  WHERE key = ? AND epoch = ? AND owner = ? → events = ${eventsWith('epoch', '?')}\n  WHERE key = ? AND epoch = ? AND ? <> ''",
    'condition: an operator resolves under a live lease, in SQLite':
      "WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ?\n    AND CASE → WHERE key = ? AND state = 'PROCESSING' AND ? > 0\n    AND CASE",
    'condition: an operator resolves a pending payment before its time, in SQLite':
      'ELSE min(pending_until + ${RESOLVABLE → ELSE min(pending_until - ${RESOLVABLE',
    'condition: an operator resolves a pending payment that is young, in SQLite':
      ', claimed_at + ${RESOLVABLE_AFTER_CLAIM_MS}) → , claimed_at + ${RESOLVABLE_AFTER_UNTIL_MS})',
    'condition: an operator resolves a pending payment as any other, in SQLite':
      'CASE WHEN pending_until IS NULL OR → CASE WHEN pending_until IS NULL OR epoch > 0 OR',
    'condition: a claim takes a pending payment over, in SQLite': '(pending_until IS NULL OR ?) → ? IS NOT NULL',
    'condition: recovery takes a pending payment as an abandoned one, in SQLite':
      'AND pending_until IS NULL AND processor = ? → AND processor = ?',
    'condition: an ending takes a live lease, in SQLite':
      'lease_until <= ? AND processor IN (SELECT value FROM json_each(?))\n    AND (unsent → ? > 0 AND processor IN (SELECT value FROM json_each(?))\n    AND (unsent',
    "condition: an ending takes another processor's payment, in SQLite":
      "processor IN (SELECT value FROM json_each(?))\n    AND (unsent → ? <> ''\n    AND (unsent",
    'condition: an ending takes a payment that is final, in SQLite':
      "WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ? AND → WHERE key = ? AND lease_until <= ? AND",
    'condition: an ending of unsent payments takes what may have been sent, in SQLite':
      '(unsent_epoch = epoch OR NOT ?) → ? IS NOT NULL',
    "condition: another processor's pending payment is asked about, in SQLite":
      "AND processor = ?2 AND recover_at → AND ?2 <> '' AND recover_at",
    'condition: a payment that is not pending is asked about, in SQLite':
      'AND pending_until IS NOT NULL AND processor = ?2 → AND processor = ?2',
    'condition: a pending payment is asked about before its time, in SQLite':
      'AND recover_at <= ?1 AND lease_until <= ?1 → AND lease_until <= ?1',
    'condition: a pending payment is asked about under a live lease, in SQLite':
      'AND recover_at <= ?1 AND lease_until <= ?1 → AND recover_at <= ?1',
    'condition: the end of a final payment moves, in SQLite':
      "WHERE key = ?3 AND state = 'PROCESSING' AND pending_until IS NOT NULL → WHERE key = ?3 AND pending_until IS NOT NULL",
    'condition: a payment becomes pending because its end moves, in SQLite':
      "WHERE key = ?3 AND state = 'PROCESSING' AND pending_until IS NOT NULL → WHERE key = ?3 AND state = 'PROCESSING'",
    'condition: an attempt leaves the payment of a later epoch, in SQLite':
      'WHERE key = ? AND owner = ? AND epoch = ? → WHERE key = ? AND owner = ? AND ? > 0',
    'condition: an attempt leaves the payment of another owner, in SQLite':
      "WHERE key = ? AND owner = ? AND epoch = ? → WHERE key = ? AND ? <> '' AND epoch = ?",
    'condition: an attempt leaves a payment that is final, in SQLite':
      "WHERE key = ? AND owner = ? AND epoch = ? AND state = 'PROCESSING' → WHERE key = ? AND owner = ? AND epoch = ?",
    'condition: time that nobody saw ages a decline unconfirmed, in SQLite':
      'WHERE younger.hour > old.hour AND confirmed) → WHERE younger.hour > old.hour)',
  },
  [`${EMBEDDED}/payments/claims.ts`]: {
    'condition: a claim comes after its last moment, in SQLite':
      'if (!(now <= attempt.claimBefore && !mayBeRemoved(key))) → if (mayBeRemoved(key))',
    'condition: a cancellation comes after its last moment, in SQLite':
      "if (now > claimBefore) return { state: 'too late' };\n → ",
    'condition: a key below the horizon is closed, in SQLite':
      "if (mayBeRemoved(key)) return { state: 'expired' };\n    if (now → if (now",
    'condition: the claim of a lost row begins anew, in SQLite': '? Math.min(now, keyTimeOf(key)) : now → ? now : now',
    'condition: a lost row is closed before the processor was asked, in SQLite':
      "if (mayBeLost && !isLookedUp) return { state: 'may be lost' }; → if (mayBeLost && !isLookedUp && now < 0) return { state: 'may be lost' };",
    'condition: nothing waits after rows were lost, in SQLite':
      'return waitAfterLossMs > 0 && remainingMs > 0 ? → return waitAfterLossMs > 0 && remainingMs > 1e12 ?',
    'condition: a generated key of before a loss is not lost, in SQLite':
      'return key < losses.look_up_before; → return key < losses.look_up_before.slice(0, 1);',
    'condition: an attempt before that is pending is told as under way, in SQLite':
      "isPending(row) ? 'PENDING' : row.state → row.state",
    'condition: a claim says of a pending payment that it is under way, in SQLite':
      'if (isPending(row)) return → if (isPending(row) && row.epoch > 9) return',
    'condition: an attempt follows a decline of any age, in SQLite':
      'return age === undefined || age.ms >= lateMs; → return age === undefined;',
  },
  [`${EMBEDDED}/payments/payment-history-statements.ts`]: {
    "condition: a client's list of pending payments has those that were, in SQLite":
      "(?4 = 'PENDING' AND state = 'PROCESSING' AND pending_until IS NOT NULL) → (?4 = 'PENDING' AND pending_until IS NOT NULL)",
    "condition: a client's list of pending payments has others, in SQLite":
      "(?4 = 'PENDING' AND state = 'PROCESSING' AND pending_until IS NOT NULL) → (?4 = 'PENDING' AND state = 'PROCESSING')",
    'condition: a list of payments under way lacks the pending ones, in SQLite':
      'PROCESSING: newestOf(ROWS_OF.PROCESSING, ROWS_OF.PENDING) → PROCESSING: newestOf(ROWS_OF.PROCESSING)',
    'condition: a list of pending payments has others, in SQLite':
      "PENDING: `state = 'PROCESSING' AND pending_until IS NOT NULL AND → PENDING: `state = 'PROCESSING' AND",
  },
  [`${EMBEDDED}/payments/retention.ts`]: {
    'condition: time that nobody saw ages payments unconfirmed, in SQLite':
      'CASE WHEN confirmed THEN unseen_ms ELSE 0 END → unseen_ms',
    "condition: another client's rows of an order are removed, in SQLite":
      'WHERE reference = ?1 AND client IS ?2 RETURNING → WHERE reference = ?1 AND ?2 IS ?2 RETURNING',
    "condition: another client's attempts keep an order's rows, in SQLite":
      'other.reference = ?1 AND other.client IS ?2\n → other.reference = ?1\n',
    'condition: the young attempt at an order is removed, in SQLite':
      '${row}.settled_hour IS NULL OR ${row}.settled_hour > ${hour} OR → ${row}.settled_hour IS NULL OR ${hour} < 0 OR',
    'condition: an order that is still repeated is removed, in SQLite':
      ' OR ${row}.expires_at > ${now})` →  OR ${now} < 0)`',
    'condition: a young payment is removed, in SQLite':
      'row.settled_hour <= hour && row.expires_at <= now ? → row.expires_at <= now ?',
    'condition: a payment that is still repeated is removed, in SQLite':
      'row.settled_hour <= hour && row.expires_at <= now ? → row.settled_hour <= hour ?',
  },
  [`${EMBEDDED}/transactions/transaction-creations.ts`]: {
    "condition: another client's key of a create is known, in SQLite":
      'WHERE client = ? AND endpoint = ? AND key = ? AND expires_at > ?` → WHERE ? IS NOT NULL AND endpoint = ? AND key = ? AND expires_at > ?`',
    'condition: a key of a create is known after its life, in SQLite':
      'AND key = ? AND expires_at > ?` → AND key = ? AND ? > 0`',
    'condition: a key of a create is swept before its end, in SQLite':
      'FROM creation_keys WHERE expires_at <= ? ORDER → FROM creation_keys WHERE ? > 0 ORDER',
  },
  'src/http/payments/named-payment.ts': {
    "condition: an operator's own order is closed although another client has one of the name":
      'if (await records.newestOf({ reference, client, reader })) return; → if (client) return;',
    'condition: a client that is in no key file and no payment is known':
      'if (!(await records.newestOf({ client, reader: clientOf(request) }))) throw → if (!client) throw',
  },
};
