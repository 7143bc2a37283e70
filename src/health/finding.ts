/** What `idempay doctor` found out about one thing. No text of it holds credentials. */
export interface Finding {
  /** Wrong: it loses payments or keys, or cannot serve. Warning: it may be meant so. */
  readonly verdict: Verdict;
  readonly what: string;
  readonly found: string;
  readonly wanted: string;
  readonly why: string;
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

/** Resolves to what `work` finds, or to `tooLate` after the limit. The work itself goes on then. */
export async function within(
  limitMs: number,
  work: Promise<readonly Finding[]>,
  tooLate: Finding,
): Promise<readonly Finding[]> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<readonly Finding[]>((resolve) => {
    timer = setTimeout(resolve, limitMs, [tooLate]);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

export function milliseconds(ms: number): string {
  return ms < 10 ? `${ms.toFixed(2)} ms` : `${Math.round(ms)} ms`;
}

export function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}
