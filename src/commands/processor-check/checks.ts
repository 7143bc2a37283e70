import { readMoney } from '../../payments/values/money.js';
import { atOnce, twoAmountsAtOnce } from './at-once.js';
import { content, contentIsRead } from './content.js';
import { decline } from './declines.js';
import { mediaTypes, references, wrongRequests } from './forms.js';
import { type Judgement, skipped } from './judgement.js';
import { cutConnection, timeLimit } from './lost-replies.js';
import { anotherAmount, firstCharge, lookUpAfter, lookUpBefore, repeat, unknownReference } from './outcomes.js';
import type { Probe } from './probe.js';

export interface Check extends Judgement {
  readonly check: string;
}

/** Runs the contract in order. Checks after an end are skipped. Throws UnreachableProcessorError. */
export async function* runChecks(probe: Probe): AsyncGenerator<Check> {
  const { money } = probe.settings;
  const first = { payment: probe.newPayment('charge, look-up, repeat, another amount') };
  const neverSent = probe.newPayment('look-up');
  const amount = otherAmount(money.amount, money.currency);
  let areAmountsCompared = false;
  let isContentRead: boolean | undefined;
  const checks: readonly (readonly [check: string, run: () => Promise<Judgement>])[] = [
    ['look-up before a charge', () => lookUpBefore(probe, neverSent)],
    ['charge', () => firstCharge(probe, first)],
    ['look-up after a charge', () => lookUpAfter(probe, first)],
    ['repeat', () => repeat(probe, first)],
    ['unknown reference', () => unknownReference(probe, neverSent)],
    [
      'another amount',
      async () => {
        const judgement = await anotherAmount(probe, first, amount);
        areAmountsCompared = judgement.verdict === 'kept';
        return judgement;
      },
    ],
    [
      'content',
      async () => {
        const { judgement, isRead } = await content(probe);
        isContentRead = isRead;
        return judgement;
      },
    ],
    ['content is read', async () => contentIsRead(isContentRead, probe.settings.source)],
    ['twenty at once', () => atOnce(probe)],
    ['two amounts at once', () => twoAmountsAtOnce(probe, amount, areAmountsCompared)],
    ['cut connection', () => cutConnection(probe)],
    ['time limit', () => timeLimit(probe)],
    ['decline', () => decline(probe)],
    ['wrong requests', () => wrongRequests(probe)],
  ];
  let ended = false;
  for (const [check, run] of checks) {
    const judgement: Judgement = ended ? skipped('Not checked, because of what is above.') : await run();
    ended ||= judgement.isEnd === true;
    yield { check, ...judgement };
  }
  yield { check: 'reference in replies', ...references(probe) };
  yield { check: 'media types', ...(await mediaTypes(probe)) };
}

/** One whole unit more: every processor that takes the one amount takes the other. */
function otherAmount(amount: string, currency: string): string {
  const [whole = '0', fraction] = amount.split('.');
  const changed = (by: bigint) => [`${BigInt(whole) + by}`, ...(fraction === undefined ? [] : [fraction])].join('.');
  const more = readMoney(changed(1n), currency);
  return 'problem' in more ? changed(-1n) : more.amount;
}
