/** The whole file cannot be read; the message says what to do. A single bad line is not an error but a part of the result. */
export class StatementError extends Error {
  override readonly name = 'StatementError';
}
