import { CONTRACT_OF_ENDINGS } from '../../payments/ports/processor.js';
import type { Reply } from '../../payments/processors/exchange.js';
import { isStillAtWork } from '../../payments/processors/messages.js';
import { readMoney } from '../../payments/values/money.js';
import type { Answer, CheckedPayment, CheckedRefund, Probe } from './probe.js';

export type Verdict = 'kept' | 'broken' | 'skipped';

export interface Judgement {
  readonly verdict: Verdict;
  /** The finding, and if something is broken, its cost. */
  readonly sentence: string;
  /** Nothing that follows can be judged, or it would charge for nothing. */
  readonly isEnd?: boolean;
}

export interface Check extends Judgement {
  /** The name of its row. */
  readonly check: string;
}

/** A row of the contract. Its steps are taken in order until one finds a fault. */
export interface SteppedRow {
  readonly check: string;
  /** The reason why it cannot be checked, if there is one: then nothing is sent. */
  readonly skips?: (run: Run) => string | undefined;
  /** The payment that the steps are about. */
  readonly about: (run: Run) => CheckedPayment;
  readonly steps: readonly Step[];
  /** The sentence if no step finds a fault. */
  readonly kept: string | ((heard: Heard) => string | Judgement);
}

/** A row of the contract whose steps depend on each other, or which is about other things than answers. */
export interface JudgingRow {
  readonly check: string;
  readonly judge: (run: Run) => Judgement | Promise<Judgement>;
  /** It judges the replies that came, so it runs also after an end. */
  readonly isAlwaysRun?: true;
}

export type Row = SteppedRow | JudgingRow;

export type Step = {
  readonly sends: (heard: Heard) => Promise<Answer | readonly Answer[]>;
  /** Answers that break the contract, and what each of them costs. If several are found, the first entry counts. */
  readonly faults?: Partial<Record<Kind, Cost>>;
} & (
  | {
      /** Answers that keep the contract. */
      readonly expects: readonly Kind[];
      /** The cost of any other answer. */
      readonly otherwise: Cost;
    }
  | { readonly expects?: never; readonly otherwise?: never }
);

/** A sentence that says what was found and what it would cost; or a judgement, if it says more than `broken`. */
export type Cost = (answer: Answer, heard: Heard) => string | Judgement;

/** An answer may be of several kinds. */
const KINDS = {
  succeeded: ({ result }) => result.state === 'succeeded',
  /** It succeeded, and contradicts an earlier answer about the same reference. */
  'another charge': ({ contradiction }) => contradiction !== undefined,
  'both amounts': (_, { payment }) => payment.amounts.size > 1,
  'not charged at first': (_, { first }) => first.result.state !== 'succeeded' && !isStillAtWork(first.reply),
  declined: ({ result }) => result.state === 'declined',
  'no record': ({ result }) => result.state === 'no record',
  'at work': ({ reply }) => isStillAtWork(reply),
  unclear: isUnclear,
  refused: ({ reply }) => reply.complete && isRefusal(reply),
  /** 408 and 429 say that nothing was done yet. */
  'refused for good': (answer) =>
    isUnclear(answer) && isRefusal(answer.reply) && ![408, 429].includes(answer.reply.status ?? 0),
} satisfies Record<string, (answer: Answer, heard: Heard) => boolean>;
type Kind = keyof typeof KINDS;

function isUnclear({ result, reply }: Answer): boolean {
  return result.state === 'unknown' && !isStillAtWork(reply);
}

function isRefusal({ status = 0 }: Reply): boolean {
  return status >= 400 && status <= 499;
}

export interface Heard {
  readonly run: Run;
  readonly payment: CheckedPayment;
  /** All answers of the check, in their order. */
  readonly answers: readonly Answer[];
  readonly first: Answer;
}

/** State that the checks of one run share. */
export interface Run {
  readonly probe: Probe;
  /** The first charge, about which several checks ask. */
  readonly first: CheckedPayment;
  readonly neverSent: CheckedPayment;
  readonly otherAmount: string;
  /** By the name of the check. */
  readonly verdicts: ReadonlyMap<string, Verdict>;
  /** A charge that waits for its payer, if there is one. */
  waiting?: CheckedPayment;
  /** A reference that was ended before its charge came. */
  ended?: CheckedPayment;
  /** A refund of a part of the first charge, if one was made. */
  refunded?: CheckedRefund;
  /** True if the reply to the charge with content said that the adapter reads content. Undefined if that charge has no outcome. */
  isContentRead?: boolean;
}

export const kept = (sentence: string): Judgement => ({ verdict: 'kept', sentence });
export const broken = (sentence: string): Judgement => ({ verdict: 'broken', sentence });
export const skipped = (sentence: string): Judgement => ({ verdict: 'skipped', sentence });
export const ending = (judgement: Judgement): Judgement => ({ ...judgement, isEnd: true });

/** The answer, as a part of a sentence. */
export function said({ result, detail }: Answer): string {
  switch (result.state) {
    case 'declined':
      return `declined (${result.reason})`;
    case 'not sent':
      return `the request could not be sent (${result.cause})`;
    case 'unknown':
    case 'other contract':
      return detail === '' ? result.cause : `${result.cause}: ${detail}`;
    default:
      return result.state;
  }
}

/**
 * A row about a promise that came with the third contract. An adapter of an earlier contract is asked for none of it. `since`: the clause
 * that names the promise.
 */
export function rowOfContract3(check: string, since: string, judge: (run: Run) => Promise<Judgement>): Row {
  return {
    check,
    judge(run) {
      const { contract } = run.probe;
      if (contract >= CONTRACT_OF_ENDINGS) return judge(run);
      const named = contract === 0 ? 'names no contract' : `names contract ${contract}`;
      return skipped(`Not checked: the adapter ${named}, and ${since} since the third one.`);
    },
  };
}

/** Runs the rows in order. After an end, rows are skipped. Throws what a row throws. */
export async function* runChecks(rows: readonly Row[], probe: Probe): AsyncGenerator<Check> {
  const { money } = probe.settings;
  const verdicts = new Map<string, Verdict>();
  const run: Run = {
    probe,
    first: probe.newPayment('charge, look-up, repeat, another amount'),
    neverSent: probe.newPayment('look-up'),
    otherAmount: otherAmount(money.amount, money.currency),
    verdicts,
  };
  let ended = false;
  for (const row of rows) {
    const isRun = !ended || ('judge' in row && row.isAlwaysRun === true);
    const judgement: Judgement = isRun ? await judged(row, run) : skipped('Not checked, because of what is above.');
    ended ||= judgement.isEnd === true;
    verdicts.set(row.check, judgement.verdict);
    yield { check: row.check, ...judgement };
  }
}

async function judged(row: Row, run: Run): Promise<Judgement> {
  if ('judge' in row) return row.judge(run);
  const reason = row.skips?.(run);
  return reason === undefined ? takeSteps(row, run) : skipped(reason);
}

export async function takeSteps(row: Pick<SteppedRow, 'about' | 'steps' | 'kept'>, run: Run): Promise<Judgement> {
  const payment = row.about(run);
  const answers: Answer[] = [];
  const heard: Heard = {
    run,
    payment,
    answers,
    get first() {
      // There is one: the first step sends before anything is judged.
      return answers[0] as Answer;
    },
  };
  for (const step of row.steps) {
    const came = [await step.sends(heard)].flat();
    answers.push(...came);
    const fault = faultIn(came, step, heard);
    if (fault !== undefined) return typeof fault === 'string' ? broken(fault) : fault;
  }
  const found = typeof row.kept === 'string' ? row.kept : row.kept(heard);
  return typeof found === 'string' ? kept(found) : found;
}

function faultIn(came: readonly Answer[], { faults, expects, otherwise }: Step, heard: Heard) {
  for (const [kind, costOf] of Object.entries(faults ?? {})) {
    const answer = came.find((each) => KINDS[kind as Kind](each, heard));
    if (answer) return costOf(answer, heard);
  }
  const unexpected = expects && came.find((each) => !expects.some((kind) => KINDS[kind](each, heard)));
  return unexpected && otherwise?.(unexpected, heard);
}

/** One whole unit more: every processor that takes the one amount takes the other. */
function otherAmount(amount: string, currency: string): string {
  const [whole = '0', fraction] = amount.split('.');
  const changed = (by: bigint) => [`${BigInt(whole) + by}`, ...(fraction === undefined ? [] : [fraction])].join('.');
  const more = readMoney(changed(1n), currency);
  return 'problem' in more ? changed(-1n) : more.amount;
}
