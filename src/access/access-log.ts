/** Tells operators that credentials cannot be checked as they should be. */
export interface AccessLog {
  error(sentence: string): void;
  info(sentence: string): void;
}
