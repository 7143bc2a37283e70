import type { Groups } from './differences.js';

export type GroupName = keyof Groups;

interface GroupText {
  /** For scripts, which depend on it. */
  readonly name: string;
  /** For a person. */
  readonly title: string;
  /** Two or three words next to the title, which explain the count. */
  readonly hint?: string;
  /** A sentence above the list of its payments, which says what such a difference means. */
  readonly meaning?: string;
}

/** The texts of each group, in the order in which groups are shown. */
export const GROUPS: Readonly<Record<GroupName, GroupText>> = {
  matched: { name: 'matched', title: 'The same on both sides' },
  otherDay: {
    name: 'otherDay',
    title: 'The same, settled in Idempay on a day next to it',
    meaning: 'If the statement of the day on which they were settled has them too, they were charged twice.',
  },
  unlisted: { name: 'unlisted', title: 'Declined in Idempay, not on the statement', hint: 'no money moved' },
  theirsDeclined: {
    name: 'declinedAtProcessor',
    title: 'Declined at the processor, not in Idempay',
    hint: 'no money moved',
  },
  different: {
    name: 'different',
    title: 'Different',
    meaning: 'Both sides have the payment, but some of its fields differ.',
  },
  theirs: {
    name: 'onlyAtProcessor',
    title: 'Only at the processor',
    meaning: 'Not settled in Idempay on this day or one next to it. It may still be under way in Idempay.',
  },
  ours: {
    name: 'onlyInIdempay',
    title: 'Only in Idempay',
    meaning:
      'Completed in Idempay, and not on this statement. If it was claimed just before midnight, look at the statement of the day before.',
  },
  unread: {
    name: 'unread',
    title: 'On a line that could not be read',
    meaning: 'The statement has a line for the payment, and what it says could not be read.',
  },
  duplicate: {
    name: 'duplicate',
    title: 'Twice on the statement',
    meaning: 'Another line names the same payment, and is the one that was compared.',
  },
  refundMatched: { name: 'refundMatched', title: 'Refunds, the same on both sides' },
  refundOtherDay: {
    name: 'refundOtherDay',
    title: 'Refunds, the same, settled in Idempay on a day next to it',
    meaning: 'If the statement of the day on which they were settled has them too, they were given back twice.',
  },
  refundUnlisted: {
    name: 'refundUnlisted',
    title: 'Refunds, declined in Idempay, not on the statement',
    hint: 'no money moved',
  },
  refundDifferent: {
    name: 'refundDifferent',
    title: 'Refunds, different',
    meaning: 'Both sides have a refund of the payment, but some of its fields differ.',
  },
  refundTheirs: {
    name: 'refundOnlyAtProcessor',
    title: 'Refunds, only at the processor',
    meaning: 'Not settled in Idempay on this day or one next to it. It may have been made at the processor by hand.',
  },
  refundOurs: {
    name: 'refundOnlyInIdempay',
    title: 'Refunds, only in Idempay',
    meaning:
      'Completed in Idempay, and not on this statement. Some companies write a refund to the statement on the day when its money moves.',
  },
  refundUnread: {
    name: 'refundUnread',
    title: 'Refunds, on a line that could not be read',
    meaning: 'The statement has a line for the refund, and what it says could not be read.',
  },
  refundDuplicate: {
    name: 'refundDuplicate',
    title: 'Refunds, twice on the statement',
    meaning: 'Another line names the same refund, and is the one that was compared.',
  },
  check: { name: 'processorCheck', title: 'Charges of idempay processor check', hint: 'not compared' },
  chargeback: { name: 'chargeback', title: 'Chargebacks', hint: 'not compared' },
  fee: { name: 'fee', title: 'Fees', hint: 'not compared' },
  other: { name: 'other', title: 'Other lines that are no payments', hint: 'not compared' },
};

const ALWAYS_SHOWN: readonly GroupName[] = ['matched', 'different', 'theirs', 'ours'];

/** The groups that are not empty, and the ones that everybody looks for. */
export function shownGroups(groups: Groups): readonly GroupName[] {
  return (Object.keys(GROUPS) as GroupName[]).filter((name) => groups[name].count > 0 || ALWAYS_SHOWN.includes(name));
}
