/** Faults of the service or of the simulator that gave no client a wrong answer. */
const NO_PROMISE = /^(a bug: |it could not be run: |not caught: |two runs of this seed are two histories$)/;
const STORES_RULE =
  /^a bug: \S+: (.* wrote a row that it did not hold|.* deleted the lock of .*|a final row was written again|the sum of its refunds is .*|a key was claimed again .*|a row was removed that was not final|a row was removed and others of its reference were not)$/;

/**
 * A `promise` is what clients rely on; a `store's rule` is broken inside, and may have no consequences; a `fault` is an
 * exception, or a seed with two histories.
 */
export function kindOf(violation: string): 'promise' | "store's rule" | 'fault' {
  if (STORES_RULE.test(violation)) return "store's rule";
  return NO_PROMISE.test(violation) ? 'fault' : 'promise';
}

/** The sentences that are true; each describes a broken promise. */
export const whatIsTrue = (sentences: Readonly<Record<string, boolean | undefined>>): string[] =>
  Object.keys(sentences).filter((sentence) => sentences[sentence]);
