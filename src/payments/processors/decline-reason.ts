/** Room for any sentence to a payer, in code points. */
const LONGEST_REASON = 500;

/**
 * A decline's reason as we keep and show it. The processor's own text goes into databases (PostgreSQL takes no NUL, UTF-8
 * no lone surrogate), logs and a payer's eyes: control characters become spaces, and what is too long is cut.
 */
export function cleanReason(text: string): string {
  const printable = text
    .toWellFormed()
    .replace(/\p{Cc}/gu, ' ')
    .trim();
  const cut = Array.from(printable).slice(0, LONGEST_REASON).join('').trimEnd();
  return cut === '' ? 'no reason given' : cut;
}
