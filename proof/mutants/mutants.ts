// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

import { CONDITIONS } from './conditions.js';
import { FEED } from './feed.js';
import { PENDING } from './pending.js';
import { WEBHOOKS } from './webhooks.js';

/** One text in a file and what replaces it; the text must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A deliberate mistake, one of those that are easily made. */
export interface Mutant {
  readonly name: string;
  readonly edits: readonly Edit[];
}

const POSTGRES = 'src/stores/postgres';
const REDIS = 'src/stores/redis';
const EMBEDDED = 'src/stores/embedded';

/**
 * By file and name: `text → what replaces it`, on one line or more, once or several times. A mutant of several files is
 * under each of them.
 */
const EDITS: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>> = {
  'src/payments/execution.ts': {
    'recovery sends a refund that an operator may have declined':
      'Math.min(dedupMs, idempotencyTtlMs); → idempotencyTtlMs;',
    'recovery sends no refund again without deduplication': 'isUnsent || dedupMs === 0 ? → isUnsent ?',
    'answer before commit': `const settled = await settle(claim, result, outcome, note);
→ settle(claim, result, outcome, note).catch(() => {});
      const final = { outcome, fingerprint: claim.fingerprint, client: claim.client, expiresAt: clock.now() + idempotencyTtlMs };
      const settled = { state: 'settled' as 'settled' | 'final' | 'cancelled' | 'fenced off', final };`,
    'the key store is finished before the row is settled': `const settled = await settle(
→ const early = { fingerprint: claim.fingerprint, client: claim.client, expiresAt: clock.now() + idempotencyTtlMs };
      await lockEnds.finish(claim.key, claim.owner, { ...early, outcome });
      const settled = await settle(`,
    'a fenced-off attempt answers as if it had settled': [
      `const settled = await settle(claim, result, outcome, note);
→ await settle(claim, result, outcome, note);
      const final = { outcome, fingerprint: claim.fingerprint, client: claim.client, expiresAt: clock.now() + idempotencyTtlMs };
      const settled = { state: 'settled' as 'settled' | 'final' | 'cancelled' | 'fenced off', final };`,
    ],
    'an unclear charge is sent again at once': [
      `const answer = await send(processor, claim);
→ const first = await send(processor, claim);
    const answer = first.state === 'unknown' ? await send(processor, claim) : first;`,
    ],
    'new reference per attempt': [
      'await send(processor, claim) → await send(processor, { ...claim, key: `${claim.key}/${claim.epoch}` })',
      'lookUpAt(processor, claim, → lookUpAt(processor, { ...claim, key: `${claim.key}/${claim.epoch}` },',
    ],
    'new transaction id per attempt': `transactionId: claim.transactionId }
→ transactionId: \`\${claim.transactionId}\${'epoch' in claim && Number(claim.epoch) > 1 ? claim.epoch : ''}\` }`,
    'a payment under a former name is sent again':
      "if (claim.processor !== processor.traits.name) return → if (claim.processor === '') return",
    'a pending payment whose ending is over is sent again':
      "if (claim.isPending) return → if (claim.isPending && claim.key === '') return",
    'a takeover of a pending payment takes the word of every contract':
      'isPending ? { id: processorId } → isPending === null ? { id: processorId }',
    'a pending charge of a lost row leaves the amount of its request':
      "if (!claimedAfterLoss || !charged) return → if (!claimedAfterLoss || !charged || fingerprint !== '') return",
    'takeover without look-up': "'first claim') { → 'first claim' && leases === undefined) {",
    'a lock is released before its row is abandoned': [
      'const isGivenUp = → await lockEnds.release(claim.key, claim.owner);\n    const isGivenUp =',
      `mark, note).catch(ignoreUnavailable);
    await lockEndsOf(claim).release(claim.key, claim.owner);
→ mark, note).catch(ignoreUnavailable);`,
    ],
    'an attempt of a lost row is sent although the next attempt has a record':
      'claim.mayBeLost ? lookUpNext(referenceIn(claim)) : undefined → claim.mayBeLost ? NO_NEXT : undefined',
    'a row that was claimed after a loss keeps the amount of its request':
      "result.state === 'succeeded' && claim.claimedAfterLoss ? result.charged → result.state === 'succeeded' && claim.mayBeLost === null ? result.charged",
    'a charge whose amount is not known settles a row that was claimed after a loss':
      'claim.claimedAfterLoss === true && !found.charged; → claim.claimedAfterLoss === true && !found;',
    'a takeover after a loss asks nothing of the next attempt':
      'claim.reference !== undefined && ( → claim.reference === null && (',
    'an attempt of a lost row is sent although the next attempt cannot be looked up':
      "next.state === 'unknown' ? { state: 'not sent', cause: next.cause } : next; → next.state === 'unknown' ? NO_NEXT : next;",
    'a decline that is known by the next attempt counts as answered by the processor':
      "if (result.state === 'superseded') { → if (result.state === 'superseded' && !outcome) {",
    'a payment is marked unsent although an earlier attempt may have sent it':
      "unsentMarkOf(claim) : → (unsentMarkOf(claim) ?? 'unsent') :",
    'a payment is answered as unsent although its row could not be marked':
      "mark === 'unsent' && left === 'given up' → mark === 'unsent' || left === 'given up'",
  },
  'src/payments/asking.ts': {
    'a charge is sent without the order that it pays':
      'amount, currency, order, content }); → amount, currency, order: order && undefined, content });',
    'a refund is looked up as the charge of its key':
      'if (!refund) return processor.lookUp( → if (!refund || amount) return processor.lookUp(',
    'a refund whose row was lost is settled in another currency':
      'if (found.charged.currency !== money.currency) → if (given === undefined)',
    'a refund whose row was lost is left pending with another amount':
      "found.state === 'pending' && given !== asked ? → given === undefined ?",
  },
  'src/payments/refund.ts': {
    'a refund is sent again without a look-up':
      "carryOut(claim, askedAt, 'repeat', known?.said) → carryOut(claim, askedAt, 'first claim', known?.said)",
    'a refund of which a row may be lost is sent without a look-up':
      "claimed.claim.mayBeLost ? 'repeat' : → claimed.claim.mayBeLost === null ? 'repeat' :",
    'a pending refund without a record is declined':
      "case 'no record':\n      case 'unknown': → case 'no record':\n        return takeOverRow(pending.key, client, requested, { pending, said: { state: 'declined', reason: 'no record' } });\n      case 'unknown':",
    'a refund that may be lost is refused as too much, and nothing is asked':
      'if (!(await ledger.mayBeLost(key))) return answer; → if (key !== undefined) return answer;',
    'a refund that may be lost is refused as too much although the processor did not say':
      "|| found.state === 'declined') return answer; → || found.state === 'declined' || found.state === 'unknown') return answer;",
    'a refund that may be lost is refused as too much although it is pending':
      "if (found.state === 'no record' || found.state === 'declined') return answer; → if (found.state !== 'succeeded' && found.state !== 'unknown') return answer;",
    'a refund that was made with another amount, and has no part left, stays unknown':
      "state: isOfOther ? 'other amount' : 'unknown' → state: 'unknown'",
    'a refund of a lost payment is told that there never was one':
      'mayBeLost: await ledger.mayBeLost(named.key) → mayBeLost: false',
    'a refund of a payment that is lost before its claim is told that there never was one':
      'mayBeLost: await ledger.mayBeLost(payment.key) → mayBeLost: false',
    'a refund is claimed before it is known that the adapter knows refunds':
      'processor.contract < CONTRACT_OF_ENDINGS ? await → processor.contract < 0 ? await',
    'a refund is refunded': 'return payment && !payment.refund && → return payment &&',
    "another client's payment is refunded": ' && isVisibleTo(client, payment.client) ? payment →  ? payment',
    'another amount under the name of a final refund gets its outcome':
      "if (isOther(final, requested)) return { state: 'other amount' };\n  return → return",
    'another amount under the name of a refund under way is that refund':
      "if (isOther(found, requested) && !(await ledger.mayBeLost(key))) return { state: 'other amount' }; → ",
    'the right amount is refused while a request with a wrong one is under way after a loss':
      'isOther(found, requested) && !(await ledger.mayBeLost(key)) → isOther(found, requested)',
    'the right amount is refused while a refund of a wrong one is pending after a loss':
      "isOther(pending, requested) && !pending.claimedAfterLoss) return { state: 'other amount' } → isOther(pending, requested)) return { state: 'other amount' }",
    'a refund is said to be pending with an amount that was not asked for':
      "if (isOther(pending, requested)) return { state: pending.claimedAfterLoss ? 'unknown' : 'other amount' }; → ",
  },
  'src/payments/history/payment-records.ts': {
    'the key of a refund is that of a payment': 'return found?.refund ? undefined : found; → return found;',
  },
  'src/payments/processors/messages.ts': {
    'a refund of an adapter that does not know refunds counts':
      "return otherContractIn('a refund', reply, doubt) ?? sentResultOf( → return sentResultOf(",
    'a look-up of a refund counts although the adapter does not know refunds':
      'return otherContractIn(asked, reply, doubt) ?? foundResultOf(asked → return foundResultOf(asked',
    'a reply that names another reference is believed':
      'find((named) => named !== key) → find((named) => named.length !== key.length)',
    'a reply that names another amount is believed':
      'fingerprintOf(named) === fingerprintOf(money)) return undefined; → named.currency === money.currency) return undefined;',
    'a reply that names another transaction is believed':
      'id.toUpperCase() !== transactionId → id.length !== transactionId.length',
    'the page of an ingress is taken for no record':
      '...(isObject(readJson(reply.body)) ? [] : → ...(isObject({}) ? [] :',
    'a 404 without the reference that other replies name is no record':
      'carried.reference && !namesReference(reply, key) → carried.reference && !reply.complete',
    'a 404 without the contract that other replies have is no record':
      'carried.contract && !hasContract(reply) → carried.contract && !reply.complete',
    'a time-out of the processor is a decline': `cause: reply.cause };
  return { state: 'unknown', cause: causeOf(asked, reply) };
→ cause: reply.cause };
  return reply.complete
    ? { state: 'unknown', cause: causeOf(asked, reply) }
    : { state: 'declined', reason: 'insufficient funds' };`,
  },
  'src/payments/pay.ts': {
    'the source is a part of the fingerprint, and so of the record and the lock of its key':
      "const fingerprint = fingerprintOf(requested); → const fingerprint = fingerprintOf(requested) + (requested.content?.source ?? '');",
    'a key without a record is invalid although its row exists': `return payFromRow(attempt);
→ return leaseMs > 0 ? { state: 'invalid key' } : payFromRow(attempt);`,
    'a locked key is in progress although its row is final': `return answerFromLedger(named, fingerprint, begun);
→ return leaseMs > 0
          ? { state: 'in progress', retryAfterSeconds: 1 }
          : answerFromLedger(named, fingerprint, begun);`,
    'fail open: pays when the key store is down': `return outcomeWithoutKeyStore(ledger, key, client, fault);
→ void outcomeWithoutKeyStore;
        return { state: 'taken' as const, claimBy: attempt.askedAt + leaseMs, client };`,
    'an attempt that was paid and whose row is lost is refused as out of turn':
      'if (!(await ledger.mayBeLost(key))) return claimed; → if (key) return claimed;',
    'an attempt out of turn is claimed although the processor has no record of it':
      "if (found.state === 'no record') → if (found.state === 'no record' && !found)",
    'a paid attempt is said never to have been made while the first one is under way':
      "known.state === 'not its turn' && known.previous === 'absent' ? { state: 'unknown' } : known → known",
    "takeover with the request's amount":
      'finishTakeover(attempt, claimed.claim) → finishTakeover(attempt, { ...claimed.claim, amount, currency })',
    "takeover with the repeat's content":
      'finishTakeover(attempt, claimed.claim) → finishTakeover(attempt, { ...claimed.claim, content })',
    'claim after expiry accepted': '      claimBy,\n      turn →       claimBy: claimBy + 3_600_000,\n      turn',
  },
  'src/payments/lock-ends.ts': {
    'the record of a cancelled payment stays after the next payment':
      '? lockEnds.forget(key, owner) → ? lockEnds.release(key, owner)',
    'pending: a refused claim keeps the lock': ': lockEnds.release(key, owner); → : Promise.resolve();',
  },
  'src/limits/unpaid-keys.ts': {
    'a client that issued most gets further keys while Redis is nearly full':
      'return this.refused.has(client); → return !this.refused.has(client);',
    'keys of the hour before count as much as keys of this hour':
      'counts.set(client, left * count); → counts.set(client, count);',
    'a key that was refused does not count, so that a new process refuses everybody':
      'this.thisHour.set(client, (this.thisHour → if (!this.isRefusing) this.thisHour.set(client, (this.thisHour',
    'clients with the same count are refused together': 'count > (served?.[1] → count >= (served?.[1]',
  },
  'src/platform/rereading.ts': {
    'a file whose read hangs is read once more': 'if (underWay.has(readInTime)) return; → ',
    'nobody is told of a file that hangs': 'if (waitedMs === LATE_MS) onLate(NOT_READ); → ',
    'reads that hang take every thread': 'if (underWay.size === READS_AT_ONCE) return; → ',
  },
  'src/payments/fair-places.ts': {
    'a client takes more places than its share': '< share) return false; → < this.places) return false;',
    'a refusal limits the other clients for longer than a second': 'now - refused.lastAt > CONTENDED_MS || → ',
    'a client that does not come back limits the others for ever': ' || now - refused.askedAt > GONE_AFTER_MS → ',
    'a client that goes on asking loses its share after ten seconds':
      'if (refused) refused.askedAt = this.clock.monotonic(); → ',
    'a client that asks for more than its share does not prolong the time':
      'for (const refused of waiting) refused.lastAt = now; → ',
  },
  'src/payments/values/content.ts': {
    'a card number is taken for a source': 'form.test(text)) && → form.test(`${text} `)) &&',
    'a card number after its name is taken for a source': "source.replace(CARD_PREFIX, '') → source",
    'a card number in groups is taken for a source': "number.replace(/[ -]/g, '') → number",
    'a warning shows a card number that is a name': "members.add('metadata') → members.add(`metadata.${name}`)",
    'a source may have spaces': 'VISIBLE_ASCII = /^[!-~]*$/ → VISIBLE_ASCII = /^[ -~]*$/',
  },
  'src/stores/shared/payment-rows.ts': {
    'a takeover keeps the unsent mark': 'row.unsent_epoch === row.epoch - 1 → row.unsent_epoch !== null',
    'a payment that was pending is pending when it is final':
      "return row.state === 'PROCESSING' && row.pending_until !== null; → return row.pending_until !== null;",
    'a claim does not say that its payment is pending':
      '...(row.pending_until !== null && { isPending: true }), → ...(row.pending_until === 0 && { isPending: true }),',
    'the source has the address to return to': "column.split(' ') → column.split('  ')",
    'an address to return to without a source is a source': "column.split(' ') → column.trimStart().split(' ')",
    'the source is kept with the description, which is never erased':
      'JSON.stringify({ description, metadata }) → JSON.stringify({ source, description, metadata })',
  },
  'src/payments/values/computed-key.ts': {
    'computed keys lie among those that are generated': '${FIRST_DIGIT}${digits.slice(1, 8)} → ${digits.slice(0, 8)}',
  },
  'src/payments/values/reference.ts': {
    'two clients have one key for the same reference':
      "client === undefined || client === adopter ? '-' : partOf(client); → client === adopter ? '-' : '-';",
    'the client that adopted the orders of before has new ones':
      'client === undefined || client === adopter ? → client === undefined ?',
    'all orders that lost their number share one payment':
      "TEXT.test(text) && lostNumberIn(text) === undefined → TEXT.test(text) && lostNumberIn(text) !== 'absent value'",
  },
  'src/payments/values/adoption.ts': {
    'a start with credentials makes every order new':
      'adopter !== MARKS.none && !hasOrders → adopter !== MARKS.none || hasOrders',
    "a start without credentials makes the orders new that stay nobody's":
      'if (decision !== undefined) { → if (adoptingClient(adopter) !== undefined) {',
    'a start without credentials makes the orders of clients new':
      '&& !(await hasOrdersOfClients())) → && (await hasOrdersOfClients().then(() => true)))',
    'a client with orders of its own adopts others':
      'if (!found.hasReferences || client → if (found.hasReferences || !found.hasReferences || client',
  },
  [`${EMBEDDED}/payments/adopt.ts`]: {
    'an adoption hides that the folder was restored': 'client, wasRestored ? 1 : 0); → client, wasRestored ? 0 : 0);',
  },
  'src/access/client-name.ts': {
    'an operator closes an order of a client that nobody can be':
      "return kind === 'key' ? isClientName(name) : isTokenClientName(name); → return kind === 'key' ? isClientName(name) : isTokenClientName(text);",
  },
  'src/http/payments/list-payments.ts': {
    'a page that lost the number of its order lists the orders of everybody':
      'query.reference === undefined ? undefined : referenceOf → !query.reference ? undefined : referenceOf',
    'a client searches in content too':
      'content !== undefined && client !== undefined → content !== undefined && client === null',
  },
  'src/payments/answers.ts': {
    'the lock of a cancellation is another amount than that of every payment':
      ' && lock.fingerprint !== CANCELLATION; → ;',
    'Retry-After rounded up beyond the remaining lease': 'Math.floor(remainingMs → Math.ceil(remainingMs',
  },
  'src/payments/leases.ts': {
    'lease by wall clock': [
      'lease.endsAt - clock.monotonic() > ms → lease.endsAt - (clock.now() - wallAhead) > ms',
      'let cancelRenewal: → const wallAhead = clock.now() - clock.monotonic();\n  let cancelRenewal:',
    ],
    "a renewal's refusal is ignored": `if (await ledger.renew(lease.fence, leaseMs)) lease.endsAt = askedAt + leaseMs;
    else lease.fencedOff = true;
→ await ledger.renew(lease.fence, leaseMs);
    lease.endsAt = askedAt + leaseMs;`,
  },
  'src/payments/recovery.ts': {
    'recovery runs once and never again':
      'if (!stopped) cancelNextRound → if (!stopped && leaseMs === 0) cancelNextRound',
    'recovery takes the longest due only': "first = first === 'longest due' ? 'latest due' : 'longest due'; → ",
    'what waits for an operator is counted once': 'countAfter(OVERDUE_INTERVAL_MS) → countAfter(leaseMs * 1_000_000)',
  },
  [`${POSTGRES}/payments/ledger-statements.ts`]: {
    'a process that does not know who adopted claims orders, in PostgreSQL':
      "\n      AND (reference IS NULL OR ${knowsAdopter('adopter', '$23')}) → \n      AND $23::text IS DISTINCT FROM ''",
    'a claim counts under a name that was removed, in PostgreSQL': '      AND processor = ANY (processors)\n → ',
    'a claim that settles keeps its source, in PostgreSQL': 'CASE WHEN NOT settles THEN source END → source',
    'a settlement does not erase the source, in PostgreSQL':
      'reason = settled.reason, source = NULL, → reason = settled.reason,',
    'an operator does not erase the source, in PostgreSQL': 'resolution = $4, source = NULL, → resolution = $4,',
    'a first claim whose earlier row may be lost is settled at once, in PostgreSQL':
      'outcome IS NOT NULL AND NOT may_be_lost AS settles → outcome IS NOT NULL AS settles',
    'a key whose row may be lost is said to have ended unpaid, in PostgreSQL':
      'WHERE $1::uuid >= look_up_before AND $1::uuid >= keys_before → WHERE $1::uuid >= keys_before',
    'a key whose row may be removed is said to have ended unpaid, in PostgreSQL':
      'WHERE $1::uuid >= look_up_before AND $1::uuid >= keys_before → WHERE $1::uuid >= look_up_before',
    'no unique row: every claim is granted, in PostgreSQL': `ON CONFLICT (key) DO NOTHING
    RETURNING key, owner → ON CONFLICT (key) DO UPDATE
      SET state = 'PROCESSING', epoch = 1, owner = excluded.owner, transaction_id = excluded.transaction_id,
        lease_until = excluded.lease_until, recover_at = excluded.recover_at, claimed_at = excluded.claimed_at,
        settled_at = NULL, expires_at = NULL, reason = NULL
    RETURNING key, owner`,
    'an attempt is claimed whatever the one before it is, in PostgreSQL':
      "      AND (previous_key IS NULL OR ${isTurnAfter('previous_key', 'late_ms')})\n → ",
    'a lost attempt is bound to the amount that was asked for the attempt after it, in PostgreSQL':
      "ELSE '${UNKNOWN_FINGERPRINT}' END → ELSE $6::text END",
    'the first claim of a reference charges without a look-up after rows were lost, in PostgreSQL':
      'look_up_references_until > (SELECT max(until_ms) FROM idempay.retention_hours) → look_up_references_until < 0',
    'a settlement after a loss without owner, in PostgreSQL':
      "WHERE key = $1 AND epoch = $2 AND owner = $3 AND → WHERE key = $1 AND epoch = $2 AND $3::text > '' AND",
    'a lost row is sent at a processor that cannot know it, in PostgreSQL':
      "AND (NOT may_be_lost OR ${canKnowLostRows('processor', '$14')})\n → \n",
    'a lost row is closed at a processor that cannot know it, in PostgreSQL':
      " AND ${canKnowLostRows('$13::text', '$14')}))\n → ))\n",
    'former names do not know what was lost, in PostgreSQL':
      'processors_before_loss && ${former}::text[]) → ${former}::text[] IS NULL)',
    'a payment under a former name is not taken over, in PostgreSQL':
      'AND processor = ANY ($4::text[])\n → AND processor = ($4::text[])[1]\n',
    'an attempt with a record is claimed over one that is not declined, in PostgreSQL':
      'ANY (trim_array($1::uuid[], 1)) AND before.reason IS NULL) → ANY (trim_array($1::uuid[], 1)) AND before.key IS NULL)',
    'settle without epoch, in PostgreSQL': 'payment.epoch = settled.epoch AND  → ',
    'settle without owner, in PostgreSQL': ' AND payment.owner = settled.owner\n → \n',
    'a takeover forgets whom it took the payment from, in PostgreSQL': "'from', nullif(owner, '') → 'from', NULL",
    'takeover of a live lease, in PostgreSQL':
      ' AND lease_until <= clock_timestamp() AND processor = ANY ($4::text[]) →  AND processor = ANY ($4::text[])',
    "takeover of another processor's payment, in PostgreSQL":
      'AND processor = ANY ($4::text[])\n → AND cardinality($4::text[]) > 0\n',
    'a settlement forgets the name at the processor, in PostgreSQL':
      'coalesce(settled.charge_id, processor_id) → settled.charge_id',
    'a settlement after a loss forgets the name at the processor, in PostgreSQL':
      'coalesce($12::text, processor_id) → $12::text',
    'a payment that is left forgets the name at the processor, in PostgreSQL':
      'coalesce(leaving.id, processor_id) → leaving.id',
    'a payment that is left forgets when its end is expected, in PostgreSQL':
      'coalesce(to_timestamp(leaving.until_ms / 1000), pending_until) → to_timestamp(leaving.until_ms / 1000)',
    'a payment that is left forgets that a cancellation ends it, in PostgreSQL':
      'ending = CASE WHEN NOT leaving.clears_ending THEN ending END → ending = NULL',
    'a payment that could not be ended is ended for ever, in PostgreSQL':
      'ending = CASE WHEN NOT leaving.clears_ending THEN ending END → ending = ending',
    'an ending of the order becomes one of the attempt, in PostgreSQL':
      "ending = CASE WHEN ending = 'order' THEN ending ELSE $5::text END → ending = $5::text",
    'a pending payment is asked about only after its expected end, in PostgreSQL':
      'CASE WHEN pending_until > clock_timestamp() THEN greatest(pending_until, → CASE WHEN false THEN greatest(pending_until,',
    'a pending payment near its end is asked about again and again, in PostgreSQL':
      'THEN greatest(pending_until, clock_timestamp() + ${SOONEST_QUESTION}) END)\n → THEN pending_until END)\n',
    'the end of a pending payment moves and its question does not, in PostgreSQL':
      'THEN least(recover_at, greatest( → THEN greatest(recover_at, least(',
    'a claim on a database that was not checked yet, in PostgreSQL':
      'AND ${ON_KNOWN_DATABASE}${more.condition} → ${more.condition}',
    'a mark of an unsent payment outlives a restore, in PostgreSQL': 'CASE WHEN generation = → CASE WHEN generation <=',
    'a claim in a session without a time limit':
      'AND ${ENDS_IN_TIME}\n      AND ${ON_KNOWN_DATABASE}${more → AND ${ON_KNOWN_DATABASE}${more',
  },
  [`${REDIS}/transaction-cache.ts`]: {
    'an entry counts in every epoch of the cache': '`${location.epoch} ${databaseServer()}` → databaseServer()',
  },
  [`${POSTGRES}/transactions/transaction-statements.ts`]: {
    'a change in another epoch than that of its mark':
      "($4::float8 / 1000)\n      AND ${ENDS_IN_TIME}\n      AND ${inCacheEpoch('$5')} → ($4::float8 / 1000)\n      AND ${ENDS_IN_TIME} AND $5::bigint IS DISTINCT FROM -1",
    'a change of status in a session without a time limit':
      '($4::float8 / 1000)\n      AND ${ENDS_IN_TIME} → ($4::float8 / 1000)',
    "the list's version moves outside the commit, in PostgreSQL":
      ', version = version + cardinality($1::text[])\n → \n',
    'a used key creates again, in PostgreSQL': 'WHERE known.expires_at <= excluded.created_at\n → \n',
  },
  [`${POSTGRES}/connection/database-identity-statements.ts`]: {
    'a second loss permits what was paid after the first one, in PostgreSQL':
      'OR last.processor = ANY (processors_before_loss) → OR last.processor IS NOT NULL',

    'a claim in the tables of a dump that was just restored, in PostgreSQL':
      'known.table_oid = known.tableoid AND known.checked_start → known.checked_start',
    'a server counts as checked after another one behind a pooler was checked':
      '${START} = $1 AND checked_start → $1 = $1 AND checked_start',
    'a server counts as checked since any start':
      'coalesce(checked_start = pg_postmaster_start_time(), false) AS checked → checked_start IS NOT NULL AS checked',
  },
  [`${POSTGRES}/connection/database-identity.ts`]: {
    'a process writes on after a full stop that it does not know':
      '!this.migrations.includes(newestFullStop) → newestFullStop === own && newest < own',
    'commits that a restored database lacks are not missed': '.missing.has(commit)); → .missing.has(commit) && false);',
  },
  [`${REDIS}/last-commits.ts`]: {
    'a claim is remembered only after its charge was sent': 'if (now) sendCollected(client); → ',
  },
  'src/stores/shared/payment-history.ts': {
    'a page of a list reads on until it is full, however rare what it looks for is':
      'const end = await reads.nthId(query, readLimit); → const end = query.limit > 0 ? undefined : await reads.nthId(query, readLimit);',
    'payments that are pending are found in any state':
      "if (selection.isPending && (selection.state ?? 'PROCESSING') !== 'PROCESSING') → if (selection.isPending && selection.limit === 0)",
    'a search in content reads all payments of its days at once': '|| contentPart !== null || → ||',
    'a search in content takes a name of the metadata for a value':
      'filter((payment) => content === undefined || hasContent(payment, content)) → filter((payment) => content === undefined || payment.key !== content)',
  },
  [`${EMBEDDED}/payments/ledger-statements.ts`]: {
    'no unique row: every claim is granted, in SQLite': `ON CONFLICT (key) DO NOTHING → ON CONFLICT (key) DO UPDATE
  SET state = 'PROCESSING', epoch = 1, owner = excluded.owner, lease_until = excluded.lease_until,
    transaction_id = excluded.transaction_id, settled_at = NULL, expires_at = NULL, reason = NULL`,
    'settle without owner, in SQLite': `processor_id)\${set}
    WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'\`;
→ processor_id)\${set}
    WHERE key = ? AND epoch = ? AND ? > '' AND state = 'PROCESSING'\`;`,
    'a takeover forgets whom it took the payment from, in SQLite': "'from', nullif(owner, '') → 'from', NULL",
    'a settlement forgets the name at the processor, in SQLite':
      'processor_id = coalesce(?, processor_id)${set} → processor_id = ?${set}',
    'a payment that is left forgets the name at the processor, in SQLite':
      'processor_id = coalesce(?, processor_id),\n    amount → processor_id = ?,\n    amount',
    'a payment that is left forgets when its end is expected, in SQLite':
      'pending_until = coalesce(?, pending_until) → pending_until = ?',
    'a payment that is left keeps the mark of before, in SQLite':
      'recover_at = ?, unsent_epoch = NULL, → recover_at = ?,',
    'a payment that is left forgets that a cancellation ends it, in SQLite':
      'ending = CASE WHEN ? THEN NULL ELSE ending END → ending = CASE WHEN ? THEN NULL END',
    'a payment that could not be ended is ended for ever, in SQLite':
      'ending = CASE WHEN ? THEN NULL ELSE ending END → ending = CASE WHEN ? THEN ending ELSE ending END',
    'an ending of the order becomes one of the attempt, in SQLite':
      "ending = CASE WHEN ending = 'order' THEN ending ELSE ? END → ending = ?",
    'a pending payment is asked about only after its expected end, in SQLite':
      'CASE WHEN pending_until > ?1 THEN → CASE WHEN pending_until < 0 THEN',
    'a pending payment near its end is asked about again and again, in SQLite':
      'THEN max(pending_until, ?1 + ${SOONEST_QUESTION_MS}) ELSE → THEN pending_until ELSE',
    'the end of a pending payment moves and its question does not, in SQLite':
      'THEN min(recover_at, max( → THEN max(recover_at, min(',
    'a start asks about every pending payment at once, in SQLite':
      'SET lease_until = 0\n → SET lease_until = 0, recover_at = 0\n',
    'a start leaves the leases of pending payments alive, in SQLite':
      'pending_until IS NOT NULL AND lease_until > 0`; → pending_until IS NOT NULL AND lease_until < 0`;',
    'takeover of a live lease, in SQLite':
      'lease_until <= ? AND processor IN (SELECT value FROM json_each(?))\n  RETURNING * → ? > 0 AND processor IN (SELECT value FROM json_each(?))\n  RETURNING *',
    'settle without epoch, in SQLite (rows have the process as owner, or the owner fences alone)': `processor_id)\${set}
    WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'\`;
→ processor_id)\${set}
    WHERE key = ? AND ? > 0 AND owner = ? AND state = 'PROCESSING'\`;`,
  },
  [`${EMBEDDED}/payments/claims.ts`]: {
    'a lost row is sent or closed at a processor that cannot know it, in SQLite':
      "return isKnown ? undefined : { state: 'other processor before loss' }; → return isKnown || before.length >= 0 ? undefined : { state: 'other processor before loss' };",
    'former names do not know what was lost, in SQLite': 'namesIn(own).some → [own.processor].some',
    'a loss that was accepted is refused until the next start, in SQLite':
      'acceptLostRows.run();\n      losses = readLosses.get() as unknown as Losses; → acceptLostRows.run();',

    'the first claim of a reference charges without a look-up after rows were lost, in SQLite':
      'return until > 0 && → return until < 0 &&',
    'a decline whose hour was forgotten is a young one, in SQLite':
      'age === undefined || age.ms >= lateMs → age !== undefined && age.ms >= lateMs',
    'an attempt with a record is claimed without the missing ones before it, in SQLite':
      'if (rows[index]) continue; → if (rows[index] || number > 0) continue;',
    'a lost attempt is bound to the amount that was asked for the attempt after it, in SQLite':
      'const fingerprint = UNKNOWN_FINGERPRINT; → const fingerprint = attempt.fingerprint || UNKNOWN_FINGERPRINT;',
    'the claim of a lost row begins anew by the wall clock, in SQLite':
      'mayBeLost ? Math.min(wallMs - (now - claimedAt), claimedAt) : wallMs → wallMs',
    'a claim that settles keeps its source, in SQLite': 'if (source !== null && !final) → if (source !== null)',
    'an attempt is claimed whatever the one before it is, in SQLite': ' ?? priorRows.afterPrevious(turn); → ;',
    'an attempt with a record is claimed over one that is not declined, in SQLite':
      "row && row.state !== 'DECLINED' → row && row.key === ''",
    'a first claim whose earlier row may be lost is settled at once, in SQLite':
      'mayBeLost ? undefined : finalAt( → finalAt(',
    'a claim that is settled leaves its record as generated, in SQLite':
      'recordOutcome(key, final);\n      return → return',
    'a key below the retention horizon can be claimed again, in SQLite':
      'attempt.claimBefore && !mayBeRemoved(key) → attempt.claimBefore',
  },
  [`${EMBEDDED}/payments/claim-ends.ts`]: {
    'a settlement does not erase the source, in SQLite':
      'finish(key, final, isRefund); → if (isRefund) finish(key, final, isRefund);\n      else recordOutcome(key, final);',
    'an operator does not erase the source, in SQLite':
      'finish(key, final, resolved.refund_of !== null); → if (resolved.refund_of !== null) finish(key, final, true);\n        else recordOutcome(key, final);',
    'a refund that succeeds lowers the sum, in SQLite':
      "else if (final.outcome.state === 'DECLINED') lowerSum → else lowerSum",
    'an operator declines a refund and the sum stays, in SQLite':
      'finish(key, final, resolved.refund_of !== null); → finish(key, final, false);',
    'the sum keeps what was asked for if another amount was given back, in SQLite': 'moveSum.run(key, units); → ',
    'a refund that is declined later lowers the sum by what was asked for, in SQLite':
      'setRefundUnits.run(key, units); → ',
    'an execution that was fenced off moves the sum, in SQLite': 'if (isOurs && isRefund) → if (isRefund)',
  },
  'src/payments/history/charge.ts': {
    'nothing is said to be charged where there is no row':
      "default:\n      return 'unknown'; → default:\n      return 'none';",
    'a decline that an operator found out counts as certain':
      "return row.resolution === undefined ? 'none' : 'unknown'; → return 'none';",
    'only the newest attempt at a reference counts':
      "attempt >= 1 && charge === 'none' → attempt >= 1 && charge !== 'none'",
    'a cancellation counts where rows may be lost':
      "if (row.state === 'CANCELLED' && (await ledger.mayBeLost(key))) return 'unknown'; → ",
    'the charge of another client is told':
      '!row || row.refund || !isVisibleTo(client, row.client) → !row || row.refund',
    'the key of a refund has a charge': '!row || row.refund || → !row ||',
    'the key of one attempt speaks of that attempt alone': 'if (reference) return ofReference(reference); → ',
    'a key that is named with its reference speaks of that attempt alone':
      'reference ? ofReference(reference) : ofKey(key, client) → ofKey(key, client)',
  },
  [`${EMBEDDED}/payments/payment-sources.ts`]: {
    'a source is kept under the key that an erased one had, in SQLite':
      'if (reuse.run(key, padded(source)).changes === 0) → if (reuse.run(NO_KEY, padded(source)).changes === 0)',
  },
  [`${EMBEDDED}/payments/processor-names.ts`]: {
    'simulated payments are claimed next to others, in SQLite': "THEN processors = '[]' ELSE → THEN true ELSE",
    'payments at a processor are claimed next to simulated ones, in SQLite':
      'ELSE processors <> \'["${SIMULATED}"]\' END → ELSE true END',
    'a name that was refused counts as registered, in SQLite':
      '!used.includes(processor) && isRefused(processor, used) → used.length === 0',
  },
  [`${POSTGRES}/payments/processor-names.ts`]: {
    'simulated payments are claimed next to others, in PostgreSQL': "THEN processors = '{}' → THEN true",
    'payments at a processor are claimed next to simulated ones, in PostgreSQL':
      "ELSE processors <> ARRAY['${SIMULATED}'] END → ELSE true END",
  },
  'src/payments/values/processor-names.ts': {
    'a service without PROCESSOR_URL serves a store of real payments':
      'SIMULATED ? isReal : → SIMULATED ? isReal && used.length > 1_000 :',
    'a service with PROCESSOR_URL serves a store of a trial':
      'used.length > 0 && !isReal → used.length > 1_000 && !isReal',
  },
  'proof/simulator/models/sqlite-file.ts': {
    'settle without epoch, in SQLite (rows have the process as owner, or the owner fences alone)': [
      `const result = (operation as (given: unknown) => unknown)(input);
→ const isOwned = input.owner !== undefined && name !== 'resolve';
          const given = isOwned ? { ...input, owner: line.caller } : input;
          const text = JSON.stringify((operation as (given: unknown) => unknown)(given) ?? null);
          const result = JSON.parse(text, (member, value) => (isOwned && member === 'owner' ? input.owner : value));`,
    ],
  },
  [`${EMBEDDED}/file/adoption.ts`]: {
    'a second loss permits what was paid after the first one, in SQLite':
      'OR processor IN (SELECT value FROM json_each(processors_before_loss)) → OR processor IS NOT NULL',
  },
  'src/payments/context.ts': {
    'an order and a cancellation wait for the lease alone after rows were lost':
      'waitAfterLossMs: leaseMs + timeoutMs → waitAfterLossMs: leaseMs',
    'an order does not wait for the next attempt where the processor deduplicates':
      'Math.min(dedupMs, idempotencyTtlMs) → dedupMs === 0 ? 0 : Number.POSITIVE_INFINITY',
    'an order waits for the next attempt after a loss of a moment too': 'Math.min(dedupMs, idempotencyTtlMs) → 0',
  },
  'src/payments/cancel.ts': {
    "a cancellation takes the lock of another client's key":
      'fingerprint: CANCELLATION, client, makes → fingerprint: CANCELLATION, client: undefined, makes',
    "a cancellation reads another client's row":
      'const found = await ledger.find(key, client); → const found = await ledger.find(key);',
    'an attempt is cancelled although the next one has a record':
      'lookUpNext(turn?.reference)] → lookUpNext(undefined)]',
    'an attempt is cancelled although the next one cannot be looked up':
      "if (next.state === 'unknown') return { state: 'unknown' }; → if (next.state === 'unknown') return ledger.cancel({ ...cancellation, isLookedUp: true });",
    'an attempt whose row may be lost is cancelled without a look-up':
      "Promise.all([processor.lookUp(key), lookUpNext(turn?.reference)]) → Promise.all([{ state: 'no record' } as LookUpResult, lookUpNext(turn?.reference)])",
    'an attempt whose row may be lost is cancelled although the processor did not say':
      "if (found.state !== 'no record' && found.state !== 'pending') return → if (found.state !== 'no record' && found.state !== 'pending' && found.state !== 'unknown') return",
  },
  [`${POSTGRES}/payments/claims.ts`]: {
    'an attempt with a record is claimed without the missing ones before it, in PostgreSQL':
      'const all = [...known.before, { → const all = [{',
    'no claim says that its row may be lost, in PostgreSQL':
      'const { mayBeLost } = inserted; → const mayBeLost = Boolean(inserted) && claims === undefined;',
    'claims of one batch get the content of each other, in PostgreSQL':
      '...contentsOf(sorted),\n → ...contentsOf(attempts),\n',
    'all claims of a batch get the source of the first, in PostgreSQL':
      'contents.map(({ source }) => source), → contents.map(() => contents[0]?.source ?? null),',
    'a claim that inserted no row is granted, in PostgreSQL':
      'inserted.get(attempt.owner); → inserted.get(attempt.owner) ?? { mayBeLost: false, ageMs: 0, expiresAt: null };',
    'a lost reply of a claim counts as its commit, in PostgreSQL': `return await insertOnce(attempt);
→ return await insertOnce(attempt)
        .catch((fault) => (isUnknown(fault) ? { mayBeLost: false, ageMs: 0, expiresAt: null } : Promise.reject(fault)));`,
    'an outcome that another claim wrote counts as its own when the reply is lost, in PostgreSQL':
      'row?.owner !== attempt.owner || row.epoch !== 1 → !row',
    'a first claim whose earlier row may be lost charges without a look-up, in PostgreSQL':
      "mayBeLost ? 'taken over' → mayBeLost ? 'claimed'",
    'a claim whose reply was lost charges without a look-up after rows were lost':
      'mayBeLost: row.claimed_after_loss === true → mayBeLost: false',
    'a takeover whose reply was lost counts as ours although the row is of another owner':
      "row?.state !== 'PROCESSING' || row.owner !== owner) throw → row?.state !== 'PROCESSING') throw",
  },
  [`${POSTGRES}/payments/claim-ends.ts`]: {
    'an operator declines a refund and the sum stays, in PostgreSQL':
      'const [row] = payment\n → const [row] = payment === null\n',
    'a refund is settled as a payment, and the sum stays, in PostgreSQL':
      'return refund ? settleRefund(settlement, refund) : → return refund === null ? settleRefund(settlement, refund) :',
    'a lost reply of a settlement counts as its commit, in PostgreSQL': `const { claim } = settlement;

→ const { claim } = settlement;
      if (claim.epoch > 0) return Date.now() + settlement.idempotencyTtlMs;
`,
  },
  [`${EMBEDDED}/key-store.ts`]: {
    'a client pays the key of an order from without credentials, in SQLite':
      'return record.reference !== undefined && record.client === undefined; → return record.reference === null;',
    'unlock without token, in memory':
      '?.owner === owner && locks → ?.owner !== undefined && owner !== undefined && locks',
    'a record is replayed after its expiry, in memory':
      '!record || record.expiresAt < writer.storeClock.writtenMs → !record || (!record.outcome && record.expiresAt < writer.storeClock.writtenMs)',
    'a key is refused as expired before a time past its end is written, in SQLite': [
      'record.expiresAt < writer.storeClock.writtenMs → record.expiresAt < clock.now()',
      'await writer.passTime(record.expiresAt) → await Promise.resolve(record.expiresAt)',
    ],
  },
  [`${REDIS}/scripts/release.lua`]: {
    'unlock without token, in Redis': 'if lock[1] ~= ARGV[1] then → if not lock[1] then',
  },
  [`${REDIS}/scripts/begin.lua`]: {
    'a client pays the key of an order from without credentials, in Redis':
      "and client == '' and record[6] and → and client == nil and record[6] and",
  },
  [`${REDIS}/scripts/finish.lua`]: {
    "another client's outcome is told where there was no record, in Redis": ",\n  'client', ARGV[7]) → )",
  },
  [`${EMBEDDED}/store-clock.ts`]: {
    "the store's clock stands still after a start with a late wall clock":
      'Math.max(clock.now(), lastWrittenMs) → clock.now()',
    "the store's clock runs back before a time that was written": '    this.runTo(ms);\n → ',
  },
  'src/commands/processor-check/probe.ts': {
    'a reference that was charged is listed as declined': " && payment.state !== 'charged') payment → ) payment",
  },
  [`${EMBEDDED}/file/last-commit.ts`]: {
    'a copy of the database that lacks commits is started as if it were whole':
      ' || last.number < remembered.number → ',
  },
  [`${EMBEDDED}/file/write-ahead-log.ts`]: {
    'a log is replayed over an older copy of its database': ' && first.number - 1 <= inFile.number → ',
  },
  [`${EMBEDDED}/payments/retention.ts`]: {
    'age by the wall clock: a payment settled by a late clock is removed at once, in SQLite':
      'row.settled_hour <= hour &&  → ',
    'the rows of a reference are removed one by one, in SQLite': [
      'if (isTrue(hasKeptAttempt.get(reference, client, hour, now))) return []; → ',
      '...removeReference.all(reference, client) → ...remove.all(key)',
    ],
    'a payment is removed although a refund of it stays, in SQLite':
      '|| (refunded !== null && isTrue(hasKeptRefund.get(key, hour, now)))) return []; → ) return [];',
    'an order is removed although a refund of it stays, in SQLite':
      'other.refunded IS NOT NULL AND ${hasKeptRefund → other.refunded < 0 AND ${hasKeptRefund',
    'a payment is removed and its refunds stay, in SQLite': 'refunded === null ? [] : removeRefunds.all(key) → []',
  },
  [`${POSTGRES}/payments/refund-statements.ts`]: {
    'a claim of a refund does not raise the sum, in PostgreSQL':
      'SET refunded = coalesce(payment.refunded, 0) + $14::bigint → SET refunded = coalesce(payment.refunded, 0)',
    'more is refunded than is left, in PostgreSQL':
      'AND coalesce(payment.refunded, 0) + $14::bigint <= $16::bigint\n → AND $14::bigint <= $16::bigint\n',
    'a payment in another currency is refunded, in PostgreSQL':
      'AND payment.currency = ${currency}::text AND → AND ${currency}::text IS NOT NULL AND',
    'a payment of another amount is refunded, in PostgreSQL':
      'AND payment.amount = ${charged}::numeric → AND ${charged}::numeric > 0',
    'a payment that is not COMPLETED is refunded, in PostgreSQL': "payment.state = 'COMPLETED' AND → true AND",
    'a refund is refunded, in PostgreSQL': 'AND payment.refund_of IS NULL AND → AND',
    'a payment of another processor is refunded, in PostgreSQL':
      'payment.processor = ANY (${processors}::text[])` → ${processors}::text[] IS NOT NULL`',
    'a payment is refunded although it is about to be removed, in PostgreSQL':
      "AND ${isInTime('$18')}\n → AND ($18::float8 IS NULL OR true)\n",
    'a refund is claimed after its last moment, in PostgreSQL':
      'AND clock_timestamp() <= to_timestamp($9::float8 / 1000) → AND $9::float8 > 0',
    'a second claim of a name raises the sum again, in PostgreSQL':
      'AS at) AS now\n    RETURNING → AS at) AS now ON CONFLICT (key) DO NOTHING\n    RETURNING',
    'a refund does not say that an earlier row of it may be lost, in PostgreSQL':
      'CASE WHEN ${REFERENCES_ARE_LOOKED_UP} THEN true END → NULL',
    'a declined refund does not lower the sum, in PostgreSQL':
      "change: '- ended.refund_units' → change: '- 0 * ended.refund_units'",
    'a declined refund lowers the sum twice, in PostgreSQL':
      "change: '- ended.refund_units' → change: '- least(2 * ended.refund_units, payment.refunded)'",
    'a refund that succeeds lowers the sum, in PostgreSQL':
      "changesSum: `${state}::text = 'DECLINED'` → changesSum: `${state}::text <> ''`",
    'the sum keeps what was asked for if another amount was given back, in PostgreSQL':
      '- (SELECT refund_units FROM idempay.payments WHERE key = $1::uuid)` → - ended.refund_units`',
    'a refund that is declined after a loss keeps its part, in PostgreSQL':
      "CASE WHEN ended.state = 'DECLINED' THEN 0 ELSE ended.refund_units END → ended.refund_units",
    'a fenced-off execution ends a refund, in PostgreSQL':
      'key = $1::uuid AND epoch = $2::integer AND owner = $3::text AND ${UNDER_WAY} → key = $1::uuid AND $2::integer > 0 AND $3::text IS NOT NULL AND ${UNDER_WAY}',
    'a refund that is final ends again, in PostgreSQL': 'AND owner = $3::text AND ${UNDER_WAY} → AND owner = $3::text',
  },
  [`${POSTGRES}/payments/ledger.ts`]: {
    'the key of a refund is found as that of a payment, in PostgreSQL':
      '!row || row.refund_of !== null || !isVisibleTo → !row || !isVisibleTo',
  },
  [`${POSTGRES}/payments/refunds.ts`]: {
    'a payment is found as a refund, in PostgreSQL': 'return row && row.refund_of !== null ? row → return row ? row',
    'a refund whose reply was lost is sent without a look-up after rows were lost':
      'throw fault;\n      return row; → throw fault;\n      return { ...row, claimed_after_loss: null };',
  },
  [`${EMBEDDED}/payments/refund-statements.ts`]: {
    'a claim of a refund does not raise the sum, in SQLite':
      'SET refunded = coalesce(refunded, 0) + ? → SET refunded = coalesce(refunded, 0) + 0 * ?',
    'a declined refund does not lower the sum, in SQLite':
      'SET refunded = refunded - (SELECT → SET refunded = refunded - 0 * (SELECT',
    'a declined refund lowers the sum twice, in SQLite':
      'SET refunded = refunded - (SELECT refund_units FROM payments WHERE key = ?1)\n → SET refunded = max(0, refunded - 2 * (SELECT refund_units FROM payments WHERE key = ?1))\n',
  },
  [`${EMBEDDED}/payments/refund-claims.ts`]: {
    'more is refunded than is left, in SQLite': 'return units > leftUnits ? → return units > chargedUnits ?',
    'a payment in another currency is refunded, in SQLite':
      '&& row.currency === charged.currency && row.currency === currency; → && currency !== undefined;',
    'a payment of another amount is refunded, in SQLite':
      'row.amount === charged.amount && → charged.amount !== undefined &&',
    'a payment that is not COMPLETED is refunded, in SQLite':
      "if (row?.state !== 'COMPLETED' || → if (row === undefined ||",
    'a refund is refunded, in SQLite': " || row.refund_of !== null) return →  || row.refund_of === '') return",
    'a payment of another processor is refunded, in SQLite':
      'if (!isSame || !namesIn(attempt).includes(row.processor as string)) → if (!isSame || namesIn(attempt).length === 0)',
    'a payment is refunded although it is about to be removed, in SQLite':
      "if (priorRows.isLate(row, lateMs)) return { state: 'too old' }; → ",
    'a refund is claimed after its last moment, in SQLite':
      'if (now > attempt.claimBefore) → if (attempt.claimBefore < 0)',
    'a second claim of a name raises the sum again, in SQLite':
      'if (before) return before.refund_of → if (before) raiseSum.run(attempt.units, attempt.refund.payment);\n      if (before) return before.refund_of',
    'a refund does not say that an earlier row of it may be lost, in SQLite':
      'const mayBeLost = priorRows.mayBeLost(key); → const mayBeLost = priorRows.mayBeLost(key) && false;',
  },
  [`${EMBEDDED}/payments/refunds.ts`]: {
    'a payment is found as a refund, in SQLite': '!row || row.refund_of === null || → !row ||',
  },
  [`${POSTGRES}/payments/retention-statements.ts`]: {
    'a payment is removed although a refund of it stays, in PostgreSQL':
      'AND refund_of IS NULL AND ${HAS_OLD_REFUNDS} AS → AND refund_of IS NULL AS',
    'an order is removed although a refund of it stays, in PostgreSQL':
      "bool_and(${isOld('payment')} AND ${HAS_OLD_REFUNDS}) → bool_and(${isOld('payment')})",
    'a payment is removed and its refunds stay, in PostgreSQL':
      'SELECT key FROM locked WHERE refunded IS NOT NULL → SELECT key FROM locked WHERE refunded < 0',
    'the rows of a reference are removed one by one, in PostgreSQL':
      'WHERE removable AND reference IS NULL UNION ALL SELECT key FROM attempts WHERE removable → WHERE removable',
  },
  [`${REDIS}/scripts/script.ts`]: {
    'each call of a turn is told what the first one was told, in Redis': 'replies[index] → replies[0]',
  },
  [`${REDIS}/key-store.ts`]: {
    'claimBy counts from the reply, in Redis': 'claimBy: askedAt + Number → claimBy: clock.monotonic() + Number',
    'an outcome is remembered although the lock of another owner stands':
      'if (isUnlocked === 1) remembered → remembered',
  },
  [`${REDIS}/remembered-outcomes.ts`]: {
    'a remembered outcome is repeated after its expiry':
      'return final.expiresAt > latestMs ? final : undefined; → return final;',
    'what was remembered alongside a database that was replaced is repeated':
      'if (database.server !== this.server) this.outcomes.clear(); → ',
    "another client's outcome is told from memory": ' || !isVisibleTo(client, final.client)) return → ) return',
  },
  [`${POSTGRES}/connection/database-clock.ts`]: {
    'the database clock is late by one round trip, in PostgreSQL': 'row.now - answeredAt; → row.now - askedAt;',
  },
  'src/transactions/transactions.ts': {
    'a failed commit is repeated without a look-up':
      'commit(mark).catch(async → commit(mark).catch(() => commit(mark)).catch(async',
    'fail open: writes when the cache cannot be marked': [
      `throw new StoreUnavailable('unchanged', 'the cache could not be marked before the change', fault);
→ return { id, token: \`no mark: \${fault}\`, writeBy: undefined };`,
      "throw new StoreUnavailable('unknown', 'the cache could not be updated after the change', fault); → ignore();",
    ],
    'the write mark is lifted after a write of unknown outcome':
      '!isUnknown(fault)) await → !isUnknown(fault) || mark) await',
  },
  [`${EMBEDDED}/transaction-cache.ts`]: {
    'no write mark, in memory': '      else standing.set(id, { marks: new Set([token]), newest: undefined });\n → ',
    'the first of two concurrent writes fills the cache, in memory': 'if (marked.marks.size > 0) return; → ',
  },
  [`${REDIS}/scripts/cache-mark.lua`]: {
    'no write mark, in Redis':
      "redis.call('HSET', KEYS[3], 'mark:' .. ARGV[1], string.format('%.0f', now() + ARGV[2]) .. ' ' .. source)\n → ",
    'an orphaned write mark is renewed by later writes, in Redis': 'if tonumber(ends) <= now() then → if not ends then',
  },
  'proof/simulator/models/redis-server.ts': {
    'what has expired is there, in the modelled Redis':
      'if (stored?.expiresAt === undefined || stored.expiresAt > this.time()) return → if (stored) return',
  },
  [`${REDIS}/scripts/cache-fill.lua`]: {
    'fill without token, in Redis': 'if held[1] ~= ARGV[1] or held[2] ~= source then return 0 end → ',
    'a fill is accepted with a token from before a failover, in Redis': ' or held[2] ~= source then →  then',
  },
  [`${REDIS}/scripts/cache-look-up.lua`]: {
    'entries of a replaced master are hits, in Redis': 'if entry[1] == source then → if entry[1] then',
  },
  [`${REDIS}/scripts/cache-lift.lua`]: {
    'a write under the mark of a replaced master fills the cache, in Redis':
      "mark and string.match(mark, '^%d+ (.*)$') == source and 1 or 0 → mark and 1 or 0",
  },
  [`${POSTGRES}/transactions/transaction-creations.ts`]: {
    "the list's version moves outside the commit, in PostgreSQL": [
      `const rows = await waitingTwice(
→ const text = 'UPDATE idempay.transaction_list SET version = version + $1';
    await database.write({ name: 'next_version', text }, [transactions.length]);
    const rows = await waitingTwice(`,
    ],
  },
  [`${EMBEDDED}/transactions/transaction-creations.ts`]: {
    'a used key creates again, in SQLite': 'const known = key && find(key); → const known = key && false;',
  },
  [`${EMBEDDED}/transactions/transaction-store.ts`]: {
    'a list gets the version of before a change that a read has shown, in SQLite':
      'if (changesUnderWay > 0) return versionInFile(); → ',
  },
  'src/transactions/list-tags.ts': {
    'the list tag is extended over removals':
      'await snapshot.firstRemovedSince(known.version) → Number.POSITIVE_INFINITY',
    "a client is refused because of another one's turn":
      'instanceof AllSnapshotsInUse) break; → instanceof AllSnapshotsInUse) throw fault;',
  },
  'client/payments/pay.ts': {
    'the client repeats with a new key': `() => this.transport.send(call, this.#requestOf(call, asked, body)),
→ ((sent) => async () => {
        sent += 1;
        const named = sent > 1 ? { key: await this.keys.take(call) } : asked;
        return this.transport.send(call, this.#requestOf(call, named, body));
      })(0),`,
    'the client pays with a new key after a 400': `return outcomeOfRefusedKey(
→ if (call) return this.#settle(call, { key: await this.keys.take(call) }, payment, false);
        return outcomeOfRefusedKey(`,
    'the client does not wait for onKey': 'await handOver(onKey, → void handOver(onKey,',
    'the client says of an attempt without an answer that nothing was charged':
      'throw mayHaveArrived ? unknownAtEnd(call, named, end) : → throw ',
    'resume begins as if nothing had been sent':
      'this.#settle(call, { key }, wanted, true) → this.#settle(call, { key }, wanted, false)',
  },
  'src/stores/transfer.ts': {
    'a copy is complete without a comparison':
      'if (folder.sums(table) !== → if (table.key.length > 9 && folder.sums(table) !==',
    'a folder is freed although a service has started on the target':
      'if (!(await target.giveUp(mark.name))) throw started(); → await target.giveUp(mark.name);',
    'a folder is freed although another target may have started': 'if (mark?.isCopied) throw → if (false) throw',
    'a copy of a leaving folder is freed without its target': 'if (mark && isRestored) throw → if (false) throw',
  },
  'src/stores/embedded/file/leaving-folder.ts': {
    'a folder that is taken back is no restore': 'is_copied = 0, is_backup = 1 → is_copied = 0',
  },
  'src/stores/postgres/transfer-state.ts': {
    'a target that was restored to before its start lacks nothing': 'if (wasStarted) → if (wasStarted && !transfer)',
  },
  'src/stores/postgres/transfer-target.ts': {
    'readers of the feed pass over a clock that is behind':
      'beginIncarnation(`clock_timestamp() <= → beginIncarnation(`false AND clock_timestamp() <=',
  },
  'src/stores/transferred.ts': {
    'a target that was given up, and set back, serves': 'if (found.isGivenUp) throw → if (false) throw',
  },
  'src/stores/redis/transfer-mark.ts': {
    'two copies of a folder share a Redis': 'if (found.name === name) return; → if (found.name !== "") return;',
  },
  'client/payments/attempts.ts': {
    'the client forgets that an attempt may have arrived': 'mayHaveArrived ||= answer → mayHaveArrived = answer',
  },
  'client/payments/payment-answers.ts': {
    'a refusal that is not about the content ends a payment as if nothing had been sent':
      "isAboutContent(answer.status, message) ? 'final' → error ? 'final'",
    'an answer that proves nothing is taken for one that did nothing':
      'return again(result, true);\n  // A rate → return again(result, false);\n  // A rate',
  },
  'client/payments/refused-key.ts': {
    'a key without a payment is taken for one that nothing was charged with': 'throw found.isCertain ? → throw found ?',
  },
  'client/payments/payment-records.ts': {
    'the client believes any 404 that a key was never charged':
      'answer.status === 404 && provenMessageOf(answer)?.startsWith(ABSENT) → answer.status === 404',
  },
  'client/verify-webhook.ts': {
    'a webhook is taken with any signature': 'if (!expected.some( → if (expected.length === 0 && !expected.some(',
    'a webhook is taken at any later time':
      'refuseOtherTimes(Number(timestamp)); → refuseOtherTimes(Math.max(Number(timestamp), Date.now() / 1_000));',
    'a webhook is taken with a secret that nobody keeps': "if (text !== '') return → if (text !== null) return",
    'the id of a webhook is not signed': 'signedContent(`${id}.${timestamp}.` → signedContent(`${timestamp}.`',
  },
  'client/http/proof.ts': {
    'the members of an error prove that it is of the service': '|| !hasOwnHeader(headers) → ',
    'the header of an error proves that it is of the service, whatever it says':
      'message !== undefined && SENTENCES[answer.status]?.test(message) ? message : undefined → message',
  },
  'client/http/transport.ts': {
    'any 401 permits a create to be sent again':
      'provenMessageOf(result) === undefined ? result : → provenMessageOf === undefined ? result :',
  },
  'client/http/streams.ts': {
    'an export is whole without its end': 'if (!hasEnded) throw brokenOff(); → ',
  },
  'client/transactions/transactions.ts': {
    'the client sends a create with a key without it': "return { 'idempotency-key': key }; → return {};",
    'any 204 proves a removal': 'status === 204 && hasOwnHeader(headers) → status === 204 && headers',
  },
  'client/http/changes.ts': {
    "a conflict that may be with this call's own change is told as another's":
      'if (!mayBeDone || isAboutContent(status, message)) return → if (!mayBeDone || status > 0) return',
    'a create without a key is sent again after an answer that proves nothing':
      "change.kind === 'once' ? → !change.kind ?",
  },
};

const ALL = [EDITS, CONDITIONS, PENDING, FEED, WEBHOOKS].flatMap((part) => Object.entries(part));

export const MUTANTS: readonly Mutant[] = [
  ...new Set(ALL.map(([, mutants]) => mutants).flatMap((mutants) => Object.keys(mutants))),
].map((name) => ({
  name,
  edits: ALL.flatMap(([file, { [name]: texts = [] }]) =>
    [texts].flat().map((text) => {
      const [find = '', replace = ''] = text.split(/[ \n]→ /);
      return { file, find, replace };
    }),
  ),
}));
