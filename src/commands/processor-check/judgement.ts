import type { Answer } from './probe.js';

export type Verdict = 'kept' | 'broken' | 'skipped';

export interface Judgement {
  readonly verdict: Verdict;
  /** The finding, and if something is broken, its cost. */
  readonly sentence: string;
  /** Nothing that follows can be judged, or it would charge for nothing. */
  readonly isEnd?: boolean;
}

export const kept = (sentence: string): Judgement => ({ verdict: 'kept', sentence });
export const broken = (sentence: string): Judgement => ({ verdict: 'broken', sentence });
export const skipped = (sentence: string): Judgement => ({ verdict: 'skipped', sentence });

/** Skips a check whose replies would be the same if the reference had been charged several times. */
export const nameless = (found: string): Judgement =>
  skipped(`${found}; the replies name no charge, so several charges cannot be told from one: look at the processor.`);

export const UNKNOWN_FOR_HOURS = 'such a payment would stay unknown for hours, and then wait for an operator';

/** The answer, as a part of a sentence. */
export function said({ result, detail }: Answer): string {
  switch (result.state) {
    case 'declined':
      return `declined (${result.reason})`;
    case 'not sent':
      return `the request could not be sent (${result.cause})`;
    case 'unknown':
      return detail === '' ? result.cause : `${result.cause}: ${detail}`;
    default:
      return result.state;
  }
}

/** The judgement of a finished charge that must have succeeded once; undefined if it did. */
export function faultOfOutcome(what: string, answer: Answer): Judgement | undefined {
  const { state } = answer.result;
  if (answer.contradiction !== undefined) {
    return broken(`${what} names another charge: ${answer.contradiction}. The payer may be charged twice.`);
  }
  if (state === 'succeeded') return undefined;
  if (state === 'no record') {
    return broken(
      `${what} says that there is no record of a charge that was made. Idempay would send it again: where the processor does not remember it either, the payer is charged twice.`,
    );
  }
  if (state === 'declined') {
    return broken(
      `${what} says ${said(answer)}, of a charge that succeeded. The payer has paid, and would be told no.`,
    );
  }
  return broken(`${what} is not clear: ${said(answer)}. After a lost reply ${UNKNOWN_FOR_HOURS}.`);
}
