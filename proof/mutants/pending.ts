// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

const PAYMENTS = 'src/payments';
const HTTP = 'src/http/payments';

/** A mistake in each condition on pending payments and on endings outside the stores, as in `mutants.ts`. */
export const PENDING: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>> = {
  [`${PAYMENTS}/asking.ts`]: {
    'pending: a payment that was claimed after a loss is compared with its row': '!pending.claimedAfterLoss, → true,',
    'pending: a look-up counts under any contract':
      '!pending.claimedAfterLoss, { id: pending.processorId }) → !pending.claimedAfterLoss)',
    "pending: a look-up forgets the processor's name of the charge": '{ id: pending.processorId } → { id: undefined }',
  },
  [`${PAYMENTS}/pending.ts`]: {
    'pending: an action is passed on for a minute': 'FRESH_MS = 1_000 → FRESH_MS = 60_000',
    'pending: each request asks the processor': 'look.askedAt < FRESH_MS ? look → look.askedAt < 0 ? look',
    'pending: the action of an earlier second is given':
      'said = freshLook(key)?.answered → said = looks.get(key)?.answered',
    'pending: the action is given while a cancellation ends the payment':
      'payment.ending ? undefined : actionOf → payment.ending === payment.key ? undefined : actionOf',
    'pending: each payment is remembered for ever': 'if (looks.size > MOST_REMEMBERED) → if (looks.size < 0)',
    'pending: a payment that is asked about again is the first to be forgotten':
      'looks.delete(key);\n    looks.set(key, look) → looks.set(key, look)',
    'pending: a repeat takes the lock':
      'mayBePending: (key) => looks.has(key) → mayBePending: (key) => looks.has(`${key} `)',
    'pending: a final payment is never forgotten':
      'forget(key) {\n      looks.delete(key); → forget(key) {\n      looks.has(key);',
    'pending: the next request is far away':
      'Math.min(LONGEST_RETRY_SECONDS, → Math.min(LONGEST_RETRY_SECONDS * 1_000,',
    'pending: the next request is at once': 'Math.max(SHORTEST_RETRY_SECONDS, → Math.max(0,',
  },
  [`${PAYMENTS}/compare-with-kept.ts`]: {
    'contradiction: the same outcome is an alarm': ' || kept === answered) return; → ) return;',
    'contradiction: a decline after a cancellation is an alarm':
      "if (kept === 'CANCELLED' && answered === 'DECLINED') return; → ",
    'contradiction: a charge after a cancellation is no alarm':
      "if (kept === 'CANCELLED' && answered === 'DECLINED') return; → if (kept === 'CANCELLED') return;",
  },
  [`${PAYMENTS}/refund.ts`]: {
    'contradiction: a refund that was declined meanwhile and given back is no alarm':
      'if (known) compareWithKept(events, known.pending, known.said, keptIn(found));\n → ',
  },
  [`${PAYMENTS}/history/resolve.ts`]: {
    "contradiction: a verdict that the processor's answer meets is no alarm":
      'compareWithKept(events, payment, found, kept?.state); → void compareWithKept;',
    'resolution: a reply about an amount that was not compared settles a pending payment':
      'open && isMoneyKnown && → open &&',
    'resolution: a payment that is not open is settled without another look-up':
      'open && isMoneyKnown && → isMoneyKnown &&',
    'resolution: the outcome of a payment that is ended waits for the ending':
      'open && isMoneyKnown && → payment.pendingUntil && isMoneyKnown &&',
    'resolution: a verdict is judged by the end that was expected before':
      'await ledger.movePending(key, found.untilMs);\n → ',
    'resolution: a payment that the processor calls pending is left to the verdict':
      "if (found.state === 'pending' && payment.pendingUntil !== undefined) { → if (found.state === 'pending' && key) {",
    'resolution: a verdict is written over an outcome that could not be settled':
      'return isAboutMoneyOf(claim, found); → return found.state === payment.key;',
    'resolution: a verdict is written while another execution has the payment':
      "if (kept?.state === 'PROCESSING') return true; → ",
    'resolution: a verdict is written when an ending was refused':
      "if (result.state === 'cannot be ended') return true; → ",
    'resolution: a verdict on an amount that nobody knows is refused':
      "return found.state !== 'succeeded' || charged !== undefined; → return true;",
    'resolution: a verdict is written over a decline of a lost row':
      "return found.state !== 'succeeded' || charged !== undefined; → return charged !== undefined;",
    'resolution: a verdict is written over a charge of a lost row':
      'if (claimedAfterLoss) return → if (claimedAfterLoss && !charged) return',
    'resolution: a reply about another amount refuses the verdict':
      'return !charged || fingerprintOf(charged) === fingerprint; → return true;',
  },
  [`${PAYMENTS}/pay.ts`]: {
    'contradiction: an outcome that a repeat hears after a verdict is no alarm':
      'compareWithKept(events, payment, outcome, keptIn(found));\n → ',
    'pending: the row of a final payment is read before each replay':
      "      if (found.state === 'final') pendingLooks.forget(key);\n → ",
    'pending: another amount is told what is pending':
      'if (differs(key, payment.fingerprint, fingerprint)) return mismatch(key);\n → ',
    'pending: another amount is told what its takeover found pending':
      'if (differs(claim.key, result.payment.fingerprint, fingerprint)) return mismatch(claim.key);\n        return pendingLooks → return pendingLooks',
    'pending: a repeat asks while another execution is at work':
      'payment.remainingMs > 0 || payment.ending) → payment.ending)',
    'pending: a repeat asks while a cancellation ends the payment':
      'payment.remainingMs > 0 || payment.ending) → payment.remainingMs > 0)',
    "pending: another processor's payment is asked about":
      '.includes(payment.processor)) return → .includes(payment.processor) && key === client) return',
    'pending: a repeat does not ask under a former name':
      '!namesOf(processor.traits).includes → ![processor.traits.name].includes',
    'pending: questions take more places than there are':
      "if (!places.take(client)) return { state: 'pending without answer' };\n → ",
    'pending: the end that the processor expects now is not told': '{ ...payment, untilMs: said.untilMs } → payment',
    'pending: no answer is told as pending':
      "case 'unknown':\n        return { state: 'pending without answer' }; → case 'unknown':\n        return pendingLooks.answer(payment);",
    'pending: a payment without a record is told as pending':
      "case 'no record':\n        return { state: 'unknown' }; → case 'no record':\n        return pendingLooks.answer(payment);",
    'pending: a repeat cannot settle': '...ofProcessor, isPending: true }); → ...ofProcessor });',
    'pending: a repeat asks again for the outcome that it has': "'repeat', outcome); → 'repeat');",
    'ending: a repeat that asked for an end that cannot be is told as unknown':
      "return SOON;\n      case 'cancelled': → return { state: 'unknown' };\n      case 'cancelled':",
  },
  [`${PAYMENTS}/execution.ts`]: {
    'pending: a payment is sent again':
      "if (claim.isPending) return 'and → if (claim.isPending && origin === 'first claim') return 'and",
    'pending: a takeover believes a look-up under any contract':
      "return isPending ? { id: processorId } : undefined; → return isPending && processorId === '' ? { id: processorId } : undefined;",
    'pending: an execution asks again for the outcome with which it took over':
      'const result = known ? → const result = known && !claim ?',
    'pending: an outcome of unknown amount settles a row of a loss':
      'return isOfUnknownAmount(claim, found) ? OF_UNKNOWN_AMOUNT : found;\n} → return isOfUnknownAmount(claim, found) && !found ? OF_UNKNOWN_AMOUNT : found;\n}',
    'pending: recovery asks right after the charge': 'recoverAfterMs: FIRST_QUESTION_MS → recoverAfterMs: 0',
    'pending: the expected end is not written': 'pendingUntilMs: pending?.untilMs → pendingUntilMs: undefined',
    "pending: the processor's name of the charge is not written": '\n      processorId: pending?.id, → ',
    'pending: an attempt that lost the payment says that it is pending':
      'if (!isLeft) return → if (isLeft === undefined) return',
    'pending: a payment whose row could not be written is told as pending':
      'if (!isLeft) return → if (isLeft === false) return',
    "pending: a settlement forgets the processor's name of the charge":
      'id === undefined ? claimed → id !== claimed.owner ? claimed',
    'pending: the first repeat asks again': 'pendingLooks.note(claim.key, result);\n → ',
    'ending: a takeover sends the payment':
      "return claim.ending ? → return claim.ending && origin === 'cancellation' ?",
    'ending: an unsent payment is asked about': 'if (claim.unsent) return ENDED_UNSENT;\n → ',
    'ending: a payment that is unsent since a loss ends without a question':
      'if (claim.unsent) return ENDED → if (claim.unsent || claim.mayBeLost) return ENDED',
    'ending: a reply under another contract is not followed by a look-up':
      "if (found.state === 'succeeded' || found.state === 'declined') return withKnownAmount(claim, found, done);\n    if (ended → if (ended",
    'ending: the look-up after it counts under any contract':
      'knownMoneyOf(claim), { id: claim.processorId }) → knownMoneyOf(claim))',
    'ending: the look-up after it compares a row of a loss':
      'return claim.claimedAfterLoss ? undefined : claim; → return claim;',
    'ending: it is asked for although a charge may come after it':
      'if (dedupMs > 0 && claim → if (dedupMs >= 0 && claim',
    'ending: it is asked for under a former name although a charge may come after it':
      'if (dedupMs > 0 && claim.processor === name) return endAt → if (dedupMs > 0) return endAt',
    'ending: a charge that may come is ended all the same':
      "if (come.state === 'no record') return NOT_COME; → if (come.state === 'no record') return endAtProcessor(claim, done);",
    'ending: a success of unknown amount settles a row of a loss':
      ' && !isOfUnknownAmount(claim, ended)) return ended; → ) return ended;',
    'ending: a success of unknown amount counts as no end':
      "if (ended.state !== 'other contract') return OF_UNKNOWN_AMOUNT; → if (ended.state !== 'other contract') return { state: 'not ended', cause: '' };",
    'ending: the end that the look-up expects is not written':
      ", ...(found.state === 'pending' && { pending: found }) }; →  };",
    'ending: it is never cleared':
      'clearsEnding: claim.ending !== undefined → clearsEnding: claim.ending === undefined',
  },
  [`${PAYMENTS}/cancel.ts`]: {
    'ending: of an abandoned attempt only there is nothing':
      "return { state: 'under way', fingerprint: '', remainingMs: 0 };\n    if (found → return { state: 'nothing to end' };\n    if (found",
    'ending: of an attempt only closes one that was never begun':
      'await (asked.only ? findOnly(key, owner, taken) : close(key, owner, taken)).catch( → await close(key, owner, taken).catch(',
    'ending: of an attempt only never asks about a lost row':
      "if (!(await ledger.mayBeLost(key))) return { state: 'nothing → if (key) return { state: 'nothing",
    'ending: of an attempt whose row may be lost, no answer is nothing to end':
      "if (known.state === 'no record') return { state: 'nothing → if (known.state === 'no record' || known.state === 'unknown') return { state: 'nothing",
    'ending: of an attempt only ends the order': "asked.only ?? 'order') → 'order')",
    'ending: a charge of a cancelled row is told as cancelled':
      "return result.answered === 'COMPLETED' ? { state: 'charged before' } : CANCELLED; → return CANCELLED;",
    'ending: an adapter that does not know endings is asked':
      'if (processor.contract < CONTRACT_OF_ENDINGS) { → if (processor.contract < 0) {',
    'ending: without contract 3 a payment that may have been sent is taken as unsent':
      'onlyUnsent: true → onlyUnsent: false',
    'ending: a processor that is down is told as one without endings':
      "      if (contract === 0 && state === 'unknown') return { state };\n → ",
    'ending: an unclear look-up hides that the adapter knows no endings':
      'if (contract === 0 && state === → if (state ===',
    'ending: a look-up under another contract permits it':
      'if (contract < CONTRACT_OF_ENDINGS) return → if (contract < 0) return',
    'ending: a refused one keeps the lock':
      'await lockEnds.release(key, owner);\n      return claim ?? → return claim ??',
    'ending: one that fails keeps the lock':
      "'order').catch(async (fault: unknown) => {\n      await lockEnds.release(key, owner);\n → 'order').catch(async (fault: unknown) => {\n",
    'ending: a lost row of a pending payment is cancelled unasked':
      "return found.state === 'pending'\n      ? → return found.state === 'pending' && found.untilMs < 0\n      ?",
    'ending: of an attempt out of turn, nobody asks about its lost row':
      'if (!mayHideOwnRow(refused) || !(await ledger.mayBeLost(key))) return refused; → if (mayHideOwnRow(refused) || key) return refused;',
    'ending: of an attempt out of turn, a lost row that is pending is told as charged':
      "if (found.state === 'pending') return adopt(cancellation, found);\n    if (found → if (found",
    'ending: of an attempt out of turn, a lost row is told as one that never was':
      "return refused.previous === 'absent' ? { ...refused, previous: 'may be lost' } : refused; → return refused;",
    'ending: a lost row is claimed with an amount that nobody named':
      "if (!charged) return { state: 'unknown' }; → charged ??= { amount: '0.01', currency: 'USD' };",
    'ending: the attempts before a lost row are not written': 'shortLossMs, knownAtProcessor, → shortLossMs,',
    "ending: a lost row forgets the processor's name of the charge":
      'pendingUntilMs: untilMs, processorId: id } → pendingUntilMs: untilMs }',
    'ending: a lost row is not pending': 'recoverAfterMs: 0, pendingUntilMs: untilMs, → recoverAfterMs: 0,',
    'ending: a payment of a key is declined for ever':
      "if (!ended) return ending ? CANCELLED : { state: 'declined' }; → if (!ended) return { state: 'declined' };",
    'ending: the last attempt has one to close': 'if (ended.attempt === LAST_ATTEMPT) return CANCELLED;\n → ',
    'ending: the end of one attempt closes the order later': "if (ending === 'order') return → if (ending) return",
    'ending: an order that was ended stays open':
      "if (ending === 'order') return → if (ending === 'order' && ended.attempt < 0) return",
    'ending: a closed order is told as declined':
      "=== 'cancelled' ? CANCELLED : { state: 'declined' } → === 'expired' ? CANCELLED : { state: 'declined' }",
    'ending: of a declined attempt only is refused': 'return asked.only ? CANCELLED : afterWrite( → return afterWrite(',
    'ending: a pending payment is at work for ever':
      'return found.payment.remainingMs === 0 → return found.payment.remainingMs < 0',
  },
  [`${PAYMENTS}/recovery.ts`]: {
    'contradiction: an outcome that recovery hears after a verdict is no alarm':
      'else if (known) compareWithKept(events, payment, known, (await history.find(key))?.state);\n → ',
    'pending: questions take the places of abandoned payments':
      'PENDING_PLACES - asking.size → RECOVERY_CONCURRENCY - asking.size',
    'pending: abandoned payments take the places of questions':
      'ABANDONED_PLACES - working.size → RECOVERY_CONCURRENCY - working.size',
    'ending: recovery asks what became of the payment instead':
      'if (payment.ending) return takeOverPending(payment);\n → ',
    'pending: recovery does not ask under a former name':
      'of names) await askAboutPendingUnder → of names.slice(0, 1)) await askAboutPendingUnder',
    'pending: recovery cannot settle under a former name':
      'processor: itsName, isPending → processor: names[0] ?? itsName, isPending',
    'pending: each question writes the expected end': 'if (untilMs !== before) await → await',
    'pending: the expected end never moves': 'if (untilMs !== before) await → if (untilMs < 0) await',
    'pending: a payment without a record is expected later each time':
      'Math.min(payment.untilMs, clock.now()) → clock.now()',
    'pending: recovery asks again for the outcome that it has':
      'await finish(claim, askedAt, known) → await finish(claim, askedAt)',
    'pending: recovery asks once and never again':
      'if (!stopped) cancelNextQuestions → if (!stopped && leaseMs === 0) cancelNextQuestions',
    'pending: a start waits for the answers':
      'round.then(() => Promise.all(working)) → Promise.all([round, questions]).then(() => Promise.all([...working, ...asking]))',
    'ending: a payment that cannot be ended counts as finished': "&& result.state !== 'cannot be ended') → )",
  },
  [`${PAYMENTS}/processors/messages.ts`]: {
    'contract: a look-up of an open payment counts under an earlier one':
      "isOpen ? otherContractIn('a look-up', → !reply ? otherContractIn('a look-up',",
    'contract: a charge is pending under an earlier one':
      "if (!namesEndings(reply) || !says('pending' → if (!says('pending'",
    'contract: a charge is pending with the status of an outcome':
      'reply.status !== PENDING_STATUS[asked]) → reply.status > 202)',
    'contract: an ending counts under an earlier one':
      'if (reply.complete && !namesEndings(reply)) {\n → if (reply.complete && !namesEndings(reply) && !isFromAdapter) {\n',
    'contract: the reply of a gateway is the word of an adapter':
      "state: isFromAdapter ? 'other contract' : 'unknown', → state: 'other contract',",
    'contract: an ending that was only requested cannot be':
      "reply.status === 409) return { state: 'cannot → reply.status >= 409) return { state: 'cannot",
    'contract: an outcome counts with any status of success':
      'reply.status !== 200) return undefined;\n  const body → reply.status > 299) return undefined;\n  const body',
    'contract: of two versions the higher one counts': 'Math.min(...versions → Math.max(...versions',
    "contract: any text is the processor's name of the charge":
      "typeof id === 'string' && CHARGE_ID.test(id) → typeof id === 'string'",
    "contract: the processor's name of the charge is sent as it is":
      '?id=${encodeURIComponent(open.id)} → ?id=${open.id}',
    'contract: reversed is said under an earlier one': "namesEndings(reply) && says('reversed' → says('reversed'",
    'contract: an adapter without endings raises an alarm':
      "const isExpected = asked === 'an ending' && → const isExpected = asked === 'a charge' &&",
    'contract: a wrong password for an ending is expected':
      ' && lookAt !== LOOK_AT_CREDENTIALS && !namesEndings →  && !namesEndings',
    'contract: a broken action raises no alarm':
      '  if (problemIn(asked, reply) !== undefined) return LOOK_AT_ADAPTER;\n → ',
    'contract: a look-up of a pending payment names no amount':
      "{ state: 'pending', ...waiting, charged: chargedIn(reply), → { state: 'pending', ...waiting,",
  },
  [`${PAYMENTS}/processors/pending-reply.ts`]: {
    'contract: an action has any number of members':
      'members.length > MOST_MEMBERS) → members.length > MOST_MEMBERS + 1)',
    'contract: an action has a name of any length': 'nameLength > LONGEST_NAME) → nameLength > LONGEST_NAME + 1)',
    'contract: an action has a name without characters': 'nameLength < 1 || → ',
    'contract: an action has a text of any length':
      'codePointsIn(value) > LONGEST_VALUE) → codePointsIn(value) > LONGEST_VALUE + 1)',
    'contract: an action has members of any type': [
      "if (typeof value !== 'string') return → if (typeof value === 'object') return",
      'codePointsIn(value) > → codePointsIn(String(value)) >',
    ],
    'contract: an action is of any length':
      'JSON.stringify(action)) > MOST_BYTES → JSON.stringify(action)) > MOST_BYTES * 2',
    'contract: an action leads to any page':
      'if (url !== undefined && !isPage(url)) return → if (url !== undefined && !url) return',
    'contract: an action leads to another machine over http':
      "protocol === 'http:' && isLoopback(hostname) → protocol === 'http:' && hostname !== ''",
    'contract: an action is a list': ' || Array.isArray(action)) return → ) return',
    'contract: a pending charge ends on 30 February': ' || !new Date(midnight).toISOString().startsWith(day)) → )',
    'contract: a pending charge has no expected end':
      "typeof until === 'string' ? readMoment(until) : undefined → typeof until === 'string' ? readMoment(until) : 0",
  },
  [`${PAYMENTS}/processors/http.ts`]: {
    'contract: a processor that is down knows no endings': [
      '      contract = contractIn(reply);\n → ',
      'const doubt = doubtIn(asked, reply, subject, carried); → contract = contractIn(reply);\n    const doubt = doubtIn(asked, reply, subject, carried);',
    ],
    'contract: no look-up is of an open payment':
      'lookUpResultOf(reply, doubt, open !== undefined) → lookUpResultOf(reply, doubt)',
    'contract: an ending of another amount counts':
      '{ key, money });\n      return endResultOf → { key });\n      return endResultOf',
    'contract: an ending of the charge of a lost row does not count':
      "'an ending', question, { key, money → 'an ending', question, { key, transactionId, money",
    'contract: the return address is not sent': 'description, metadata, returnUrl };\n → description, metadata };\n',
  },
  [`${HTTP}/pay.ts`]: {
    'pending: a caller that did not ask is answered with 202':
      "asked.content?.returnUrl !== undefined) || → asked.amount !== '') ||",
    'pending: a payer is not answered with 202':
      "return ('content' in asked && asked.content?.returnUrl !== undefined) || → return",
    'pending: a caller that prefers it is not answered with 202': ' || prefersAsync(headers.prefer);\n → ;\n',
    'pending: a caller that did not ask is answered with the 503':
      "'pending without answer' && isPendingTaken; → 'pending without answer';",
    'pending: the outcome of meanwhile is withheld':
      'record === undefined ? payAgain() : → record === undefined ? answer :',
  },
  [`${HTTP}/payment-answers.ts`]: {
    'pending: a final payment is answered with 202':
      "if (payment.state !== 'PROCESSING' || payment.pendingUntil === undefined) return undefined; → if (payment.state !== 'PROCESSING' && payment.state !== 'COMPLETED') return undefined;",
    'pending: the answer has no action': '}, client, action); → }, client);',
    'pending: the answer has the end that was expected before': '{ ...payment, pendingUntil: untilMs } → payment',
    'pending: a preference that was not sent is applied':
      'if (prefersAsync(reply.request.headers.prefer)) withPreference → withPreference',
  },
  [`${HTTP}/named-payment.ts`]: {
    'ending: a scope that is none is the whole order':
      "if (only === undefined || only === 'attempt') return only;\n  throw → if (only !== 'attempt') return undefined;\n  if (only === 'attempt') return only;\n  throw",
  },
};
