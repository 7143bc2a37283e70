/** The facts that were found out about one thing. No text of it holds credentials. */
export interface Finding {
  /** Wrong: it loses payments or keys, or cannot serve. Warning: it may be meant so. */
  readonly verdict: Verdict;
  readonly what: string;
  readonly found: string;
  readonly wanted: string;
  readonly why: string;
  /** The change to make. A start acts only on findings that have it. */
  readonly advice?: string | undefined;
}

export type Verdict = 'ok' | 'warning' | 'wrong';

/** The worse of the two that hold. */
export function verdictOf(isWrong: boolean, isDoubtful = false): Verdict {
  if (isWrong) return 'wrong';
  return isDoubtful ? 'warning' : 'ok';
}

/** Something that must answer does not, or refuses; nothing more can be asked. */
export function noAnswer(what: string, reason: string, why: string): Finding {
  return { verdict: 'wrong', what, found: reason, wanted: 'an answer', why };
}

/** For the log of a start. */
export function warningsIn(findings: readonly Finding[]): string[] {
  return findings.flatMap(({ what, found, why, advice }) =>
    advice ? [`${what} is ${found}: ${why}. ${advice}.`] : [],
  );
}

export function milliseconds(ms: number): string {
  return ms < 10 ? `${ms.toFixed(2)} ms` : `${Math.round(ms)} ms`;
}

export function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}
