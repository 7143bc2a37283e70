/** What the simulator found about the service, or about itself, without a client having been told anything wrong. */
const NO_PROMISE = /^(a bug: |it could not be run: |not caught: |two runs of this seed are two histories$)/;
const STORES_RULE =
  /^a bug: \S+: (.* wrote a row that it did not hold|.* deleted the lock of .*|a final row was written again|a key was claimed again .*|a row was removed that was not final)$/;

/**
 * A `promise` is what somebody outside relies on; a `store's rule` is broken inside, and may stay without consequences; a
 * `fault` is an exception, or a history that cannot be told twice.
 */
export function kindOf(violation: string): 'promise' | "store's rule" | 'fault' {
  if (STORES_RULE.test(violation)) return "store's rule";
  return NO_PROMISE.test(violation) ? 'fault' : 'promise';
}

/** Those sentences that are true: each says how a promise is broken. */
export const whatIsTrue = (sentences: Readonly<Record<string, boolean | undefined>>): string[] =>
  Object.keys(sentences).filter((sentence) => sentences[sentence]);
