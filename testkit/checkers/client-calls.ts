import { lastTold, type PayCall, type Told } from '../client-library/calls.js';
import type { Violation } from '../history/history.js';
import type { ChargeLine } from '../processes/reference-processor.js';

/**
 * Checks every call against the processor's log, after healing and settlement. `sentAt`: when the first payment of an amount was sent,
 * by `performance.now()`.
 */
export function checkClientCalls(
  calls: readonly PayCall[],
  charges: readonly ChargeLine[],
  sentAt: ReadonlyMap<string, number>,
): Violation[] {
  const byAmount = new Map<string, ChargeLine[]>();
  for (const line of charges) byAmount.set(line.amount, [...(byAmount.get(line.amount) ?? []), line]);
  const violations = calls.flatMap((call) =>
    violationsOf(call, byAmount.get(call.amount) ?? [], sentAt.get(call.amount)),
  );
  const known = new Set(calls.map(({ amount }) => amount));
  const strange = charges.filter(({ amount }) => !known.has(amount));
  if (strange.length > 0)
    violations.push(violation('every charge belongs to a call', 'the log', `${strange.length} do not`, strange));
  return violations;
}

function violationsOf(call: PayCall, lines: readonly ChargeLine[], sentAt = Number.POSITIVE_INFINITY): Violation[] {
  const found: Violation[] = [];
  const broken = (rule: string, what: string) => found.push(violation(rule, call.amount, what, [call, ...lines]));
  const charged = lines.filter(({ status }) => status === 'succeeded');
  const told = lastTold(call);
  if (!told) {
    broken('every call ends', 'it did not');
    return found;
  }

  if (charged.length > 1) broken('never two charges for one call', `${charged.length} charges`);
  for (const { state, ...more } of call.told) {
    if (state === 'wrong') broken('a call ends in success or one of its errors', JSON.stringify(more));
  }
  if (call.keys.length > 1) broken('one key for each call', `${call.keys.length} keys`);
  const keysUsed = [
    ...lines.map(({ reference }) => reference),
    ...call.told.flatMap((each) => ('key' in each ? each.key : [])),
  ];
  const others = keysUsed.filter((key) => key !== call.keys[0]);
  if (others.length > 0) broken('the key is that of onKey', others.join(', '));
  if (sentAt < call.keptAt) broken('onKey is waited for before money moves', `sent ${call.keptAt - sentAt} ms before`);

  const outcomes = new Set(
    call.told.filter(({ state }) => state === 'paid' || state === 'declined').map((each) => JSON.stringify(each)),
  );
  if (outcomes.size > 1) broken('an outcome stays', [...outcomes].join(' and '));
  checkEnd(told, lines, broken);
  return found;
}

/** The last answer to the caller, next to the processor's log. */
function checkEnd(told: Told, lines: readonly ChargeLine[], broken: (rule: string, what: string) => void): void {
  const charged = lines.filter(({ status }) => status === 'succeeded');
  switch (told.state) {
    case 'paid':
      if (charged[0]?.transactionId !== told.transactionId)
        broken('paid: charged once, with this id', told.transactionId);
      break;
    case 'declined':
      if (charged.length > 0 || lines.length === 0)
        broken('declined: the processor declined, and charged nothing', `${lines.length} lines`);
      break;
    case 'not attempted':
      if (lines.length > 0) broken('not attempted: the processor never saw it', `${lines.length} lines`);
      break;
    case 'unknown':
      // Only a key that expired before anything arrived stays unknown.
      if (told.record !== 'none') broken('everything is settled by resume in the end', `its record: ${told.record}`);
      else if (lines.length > 0) broken('no record: the processor never saw it', `${lines.length} lines`);
      break;
    case 'wrong':
      break;
  }
}

function violation(rule: string, subject: string, what: string, history: readonly unknown[]): Violation {
  return { rule, subject, what, history };
}
