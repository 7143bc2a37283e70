/** Room for any sentence to a payer, in code points. */
const LONGEST_REASON = 500;

/**
 * A decline's reason as we keep and show it. The processor's own text goes into databases (PostgreSQL takes no NUL, UTF-8
 * no lone surrogate), logs and a payer's eyes: control characters and ends of lines become spaces, what changes the direction of text (U+202E) is left
 * out, because it makes the text around it look like another one, and what is too long is cut.
 */
export function cleanReason(text: string): string {
  const printable = text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ')
    .replace(/\p{Bidi_Control}/gu, '')
    .trim();
  const cut = Array.from(printable).slice(0, LONGEST_REASON).join('').trimEnd();
  return cut === '' ? 'no reason given' : cut;
}
