// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

import { type Mutant, mutantsOf } from '../mutant.js';

export const PAYMENT_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('src/payments/attempt.ts', {
    'answer before commit': [
      'const settled = await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);',
      `const outcome = outcomeOf(claim, result);
      ledger.settle(claim, outcome, idempotencyTtlMs).catch(() => {});
      const final = { outcome, fingerprint: claim.fingerprint, expiresAt: clock.now() + idempotencyTtlMs };
      const settled = { state: 'settled' as 'settled' | 'final' | 'fenced off', final };`,
    ],
    'the key store is finished before the row is settled': [
      '      const settled = await ledger.settle(',
      `      const early = { fingerprint: claim.fingerprint, expiresAt: clock.now() + idempotencyTtlMs };
      await endings.finish(claim.key, claim.owner, { ...early, outcome: outcomeOf(claim, result) });
      const settled = await ledger.settle(`,
    ],
    'a fenced-off attempt answers as if it had settled': [
      'const settled = await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);',
      `await ledger.settle(claim, outcomeOf(claim, result), idempotencyTtlMs);
      const expiresAt = clock.now() + idempotencyTtlMs;
      const final = { outcome: outcomeOf(claim, result), fingerprint: claim.fingerprint, expiresAt };
      const settled = { state: 'settled' as 'settled' | 'final' | 'fenced off', final };`,
    ],
    'an unclear charge is sent again at once': [
      'return processor.charge({ reference: key, transactionId, amount, currency });',
      `const charge = { reference: key, transactionId, amount, currency };
    const first = await processor.charge(charge);
    return first.state === 'unknown' ? processor.charge(charge) : first;`,
    ],
    'new reference per attempt': [
      'charge({ reference: key,',
      'charge({ reference: `${key}/${claim.epoch}`,',
      'lookUp(claim.key)',
      'lookUp(`${claim.key}/${claim.epoch}`)',
    ],
    'new transaction id per attempt': [
      "? { state: 'COMPLETED', transactionId: claim.transactionId }",
      "? { state: 'COMPLETED', transactionId: `${claim.transactionId}${claim.epoch > 1 ? claim.epoch : ''}` }",
    ],
    'takeover without look-up': [
      "if (origin !== 'first claim') {",
      "if (origin !== 'first claim' && leases === undefined) {",
    ],
    'a lock is released before its row is abandoned': [
      `    const isGivenUp = await ledger.abandon(claim, recoverAfterMs(ageMs), mark).catch(ignoreUnavailable);
    await endings.release(claim.key, claim.owner);
`,
      `    await endings.release(claim.key, claim.owner);
    const isGivenUp = await ledger.abandon(claim, recoverAfterMs(ageMs), mark).catch(ignoreUnavailable);
`,
    ],
    'the charge is sent although the lease is lost': [
      'if (!(await stillOurs()))',
      'if (!(await stillOurs()) && leases === undefined)',
    ],
    "the charge is sent again after the processor's memory": ['(ageMs >= 0 && ageMs < limitMs)', 'ageMs > -1e12'],
    'a payment is marked unsent although an earlier attempt may have sent it': [
      "result.state === 'not sent' && claim.unsent)",
      "result.state === 'not sent')",
    ],
    'a payment is answered as unsent although its row could not be marked': [
      'return unsent && isGivenUp;',
      'return unsent || isGivenUp;',
    ],
  }),
  ...mutantsOf('src/payments/processors/http.ts', {
    'a time-out of the processor is a decline': [
      "return unclear('a charge', reply, CHARGE_REFUSED);",
      `return reply.complete
        ? unclear('a charge', reply, CHARGE_REFUSED)
        : { state: 'declined', reason: 'insufficient funds' };`,
    ],
  }),
  ...mutantsOf('src/payments/payments.ts', {
    "takeover with the request's amount": [
      'return finishTakeover(claimed.claim, askedAt, fingerprint);',
      'return finishTakeover({ ...claimed.claim, ...money }, askedAt, fingerprint);',
    ],
    'claim after expiry accepted': [
      `        claimBy,
      })`,
      `        claimBy: claimBy + 3_600_000,
      })`,
    ],
    'a key without a record is invalid although its row exists': [
      'return payFromRow(key, owner, fingerprint);',
      "return leaseMs > 0 ? { state: 'invalid key' } : payFromRow(key, owner, fingerprint);",
    ],
    'a locked key is in progress although its row is final': [
      'return conflict(key, fingerprint, begun);',
      'return leaseMs > 0 ? inProgress(begun, fingerprint) : conflict(key, fingerprint, begun);',
    ],
    'fail open: pays when the key store is down': [
      `return lookAtRow(key, fault);
    });
    switch`,
      `return { state: 'taken' as const, claimBy: askedAt + leaseMs };
    });
    switch`,
    ],
  }),
  ...mutantsOf('src/payments/answers.ts', {
    'Retry-After rounded up beyond the remaining lease': [
      'Math.floor(running.remainingMs / 1000)',
      'Math.ceil(running.remainingMs / 1000)',
    ],
  }),
  ...mutantsOf('src/payments/leases.ts', {
    'lease by wall clock': [
      'lease.endsAt - clock.monotonic() > ms',
      'lease.endsAt - (clock.now() - wallAhead) > ms',
      '  let cancelRenewal:',
      `  const wallAhead = clock.now() - clock.monotonic();
  let cancelRenewal:`,
    ],
    "a renewal's refusal is ignored": [
      `if (await ledger.renew(lease.fence, leaseMs)) lease.endsAt = askedAt + leaseMs;
    else lease.fencedOff = true;`,
      `await ledger.renew(lease.fence, leaseMs);
    lease.endsAt = askedAt + leaseMs;`,
    ],
  }),
  ...mutantsOf('src/payments/recovery.ts', {
    'recovery runs once and never again': [
      'if (!stopped) cancelNextRound',
      'if (!stopped && leaseMs === 0) cancelNextRound',
    ],
  }),
];
