import type { Content } from '../values/content.js';

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

/** The texts about its payer that a payment keeps until it is final (rules P19 and P24). */
export type OfPayer = Pick<Content, 'source' | 'returnUrl'>;

/** The texts that stand in a reason for what the processor quotes of the payer. */
const STAND_INS = { source: '(the source)', returnUrl: '(the return address)' } as const;
const MEMBERS = Object.keys(STAND_INS) as (keyof OfPayer)[];

/** In one pass, the longer text first: one of them may be a part of the other. */
export function withoutPayer(reason: string, payer: OfPayer = {}): string {
  const quoted = MEMBERS.flatMap((member) => {
    const text = payer[member];
    return text ? [{ text, standIn: STAND_INS[member] }] : [];
  }).sort((a, b) => b.text.length - a.text.length);
  if (quoted.length === 0) return reason;
  const pattern = new RegExp(quoted.map(({ text }) => escaped(text)).join('|'), 'g');
  return reason.replace(pattern, (found) => quoted.find(({ text }) => text === found)?.standIn ?? found);
}

/** True if the processor's text of this reason quoted the source or the return address. */
export const quotesPayer = (reason: string): boolean => MEMBERS.some((member) => reason.includes(STAND_INS[member]));

/**
 * The reason as the row keeps it and the payer reads it: without the source and the return address, which would stay in the row if the
 * processor quotes them, and cut if it is too long. It is cut last, because a part of them could not be found.
 */
export function keptReason(reason: string, payer: OfPayer | undefined): string {
  return Array.from(withoutPayer(reason, payer)).slice(0, LONGEST_REASON).join('').trimEnd();
}

/** True if `keptReason` made `kept` of this reason, with any payer: a final payment has none to compare with. */
export function isKeptOf(kept: string | undefined, reason: string): boolean {
  if (kept === undefined || kept === reason) return kept === reason;
  const payer = patternOf(kept).exec(reason)?.groups;
  return payer !== undefined && keptReason(reason, payer) === kept;
}

/** Finds in a reason what `kept` has a text for. Neither of them has a blank in it. */
function patternOf(kept: string): RegExp {
  const pattern = MEMBERS.reduce((rest, member) => {
    const [before = '', ...others] = rest.split(escaped(STAND_INS[member]));
    return others.length === 0 ? rest : `${before}(?<${member}>[!-~]+)${others.join(`\\k<${member}>`)}`;
  }, escaped(kept));
  return new RegExp(`^${pattern}$`);
}

const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
