/** Room for any sentence to a payer, in code points. */
const LONGEST_REASON = 500;

/**
 * A decline's reason as text that we may show. The processor's own text goes into databases (PostgreSQL takes no NUL, UTF-8 no lone
 * surrogate) and logs, and the payer sees it. So control characters and ends of lines become spaces. Characters that change the direction
 * of text (U+202E) are left out, because they make the text around them look different.
 */
export function cleanReason(text: string): string {
  const printable = text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ')
    .replace(/\p{Bidi_Control}/gu, '')
    .trim();
  return printable === '' ? 'no reason given' : printable;
}

/** Stands in a reason for the source of the payment, if the processor quotes it. */
const THE_SOURCE = '(the source)';

export function withoutSource(reason: string, source: string | undefined): string {
  return source === undefined ? reason : reason.replaceAll(source, THE_SOURCE);
}

/** True if the processor's text of this reason had the source in it. */
export const quotesSource = (reason: string): boolean => reason.includes(THE_SOURCE);

/**
 * The reason as the row keeps it and the payer reads it: without the source, which would stay in the row if the processor quotes it, and
 * cut if it is too long. It is cut last, because a part of the source could not be found.
 */
export function keptReason(reason: string, source: string | undefined): string {
  return Array.from(withoutSource(reason, source)).slice(0, LONGEST_REASON).join('').trimEnd();
}

/** True if `keptReason` made `kept` of this reason, with any source: a final payment has none to compare with. */
export function isKeptOf(kept: string | undefined, reason: string): boolean {
  if (kept === undefined || kept === reason) return kept === reason;
  const parts = kept.split(THE_SOURCE);
  const sourceLength = (reason.length - parts.join('').length) / (parts.length - 1);
  if (!Number.isInteger(sourceLength) || sourceLength < 1) return false;
  const [{ length: start } = ''] = parts;
  return keptReason(reason, reason.slice(start, start + sourceLength)) === kept;
}
