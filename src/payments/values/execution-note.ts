/** Why an attempt runs. `operator` only looks the payment up; it never sends a charge. */
export type Origin = 'first claim' | 'repeat' | 'recovery' | 'operator';
/** What an attempt did beyond a plain first one, kept in the payment's row for its timeline. */
export interface ExecutionNote {
  /** What the look-up before it said. Undefined where there was none. */
  readonly lookedUp?: LookedUp | undefined;
  /** Its charge may have left this process. */
  readonly sent: boolean;
  /** Why it ended without an outcome; undefined where it has one. */
  readonly cause?: string | undefined;
}

/** `no answer`: none that says anything. */
export type LookedUp = 'found' | 'no record' | 'no answer';
