import { codePointsIn } from '../../platform/printed-text.js';

/** What a charge is about, as the first claim of its payment had it (rule P19). No part of it tells one payment from another. */
export interface Content {
  /** Stands for the payer at the processor. The store erases it when the payment is final. */
  readonly source?: string | undefined;
  readonly description?: string | undefined;
  readonly metadata?: Metadata | undefined;
}

export type Metadata = Readonly<Record<string, string>>;

/** Lengths are in code points. */
export const MOST_SOURCE = 500;
export const MOST_DESCRIPTION = 255;
export const MOST_METADATA = 20;
export const MOST_METADATA_NAME = 40;
export const MOST_METADATA_VALUE = 500;

const VISIBLE_ASCII = /^[!-~]*$/;
const CARD_NUMBER = /^[2-6][0-9]{12,18}$/;
/** How forms write a card number: after its kind, and in groups of four. */
const CARD_PREFIX = /^(?:card|pan|cc):/i;
const CARD_GROUPS = /^(?:[0-9]{4}-){3,4}[0-9]{1,4}$/;
const NUMBERS = /[0-9]+/g;

/** The sentence that tells the client what is wrong with its `source`. Undefined where nothing is. */
export function sourceProblem(source: string): string | undefined {
  if (source.length < 1 || source.length > MOST_SOURCE || !VISIBLE_ASCII.test(source)) {
    return `'source' must be 1 to ${MOST_SOURCE} visible ASCII characters, without spaces: the token that stands for the payer at your processor.`;
  }
  if (isCardNumber(withoutForm(source))) {
    return "'source' looks like a card number, which must never come here. Send the token that your processor gives for the card.";
  }
  return undefined;
}

/**
 * The names of members in whose text a number looks like a card number. Nothing is refused for that reason, because one order number in
 * ten passes the check.
 */
export function membersLikeCards({ description, metadata = {} }: Content): readonly string[] {
  const isLike = (text = '') => (text.match(NUMBERS) ?? []).some(isCardNumber);
  const names = Object.keys(metadata).filter((name) => isLike(metadata[name]));
  return [...(isLike(description) ? ['description'] : []), ...names.map((name) => `metadata.${name}`)];
}

function withoutForm(source: string): string {
  const number = source.replace(CARD_PREFIX, '');
  return CARD_GROUPS.test(number) ? number.replaceAll('-', '') : number;
}

const isCardNumber = (text: string) => CARD_NUMBER.test(text) && passesLuhn(text);

/** The same for a text of the content; `what` names it. */
export function textProblem(what: string, text: string, most: number, least = 0): string | undefined {
  const length = codePointsIn(text);
  if (length < least || length > most) {
    return `${what} must have ${least === 0 ? 'at most' : `${least} to`} ${most} characters.`;
  }
  // Neither is text for the databases of most processors: such a charge would fail there again and again.
  if (!text.isWellFormed() || text.includes('\0')) return `${what} must not hold U+0000 or half a character.`;
  return undefined;
}

/** The check digit of ISO/IEC 7812-1. */
function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index += 1) {
    const digit = Number(digits[digits.length - 1 - index]);
    const weighted = index % 2 === 0 ? digit : 2 * digit;
    sum += weighted > 9 ? weighted - 9 : weighted;
  }
  return sum % 10 === 0;
}
