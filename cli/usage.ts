/** The arguments of a command are wrong; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
