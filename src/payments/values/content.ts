import { isLoopback } from '../../platform/loopback.js';
import { codePointsIn } from '../../platform/printed-text.js';

/**
 * The description, metadata and source of a charge, as the first claim of its payment had them (rule P19). No part of it tells one payment
 * from another.
 */
export interface Content {
  /** Stands for the payer at the processor. The store erases it when the payment is final. */
  readonly source?: string | undefined;
  readonly description?: string | undefined;
  readonly metadata?: Metadata | undefined;
  /** The address to which the payer, who is present, comes back after a confirmation (rule P24). It is kept and erased with the source. */
  readonly returnUrl?: string | undefined;
}

export type Metadata = Readonly<Record<string, string>>;

/** Lengths are in code points. */
export const MOST_SOURCE = 500;
export const MOST_RETURN_URL = 1_000;
export const MOST_DESCRIPTION = 255;
export const MOST_METADATA = 20;
export const MOST_METADATA_NAME = 40;
export const MOST_METADATA_VALUE = 500;

const VISIBLE_ASCII = /^[!-~]*$/;
/** How people and forms write a card number: in one piece, or in the groups that are printed on cards, of four, or 4-6-4 and 4-6-5. */
const CARD_FORMS = [
  '[2-6][0-9]{12,18}',
  '[2-6][0-9]{3}(?<mark>[ -])[0-9]{4}\\k<mark>[0-9]{4}\\k<mark>[0-9]{1,4}',
  '[2-6][0-9]{3}(?<mark>[ -])[0-9]{4}\\k<mark>[0-9]{4}\\k<mark>[0-9]{4}\\k<mark>[0-9]{1,3}',
  '[2-6][0-9]{3}(?<mark>[ -])[0-9]{6}\\k<mark>[0-9]{4,5}',
];
const CARD_NUMBERS = CARD_FORMS.map((form) => new RegExp(`^${form}$`));
/** Each match is empty, so that a card number is also found if a number before it takes a part of it. */
const CARD_NUMBERS_WITHIN = CARD_FORMS.map((form) => new RegExp(`(?<![0-9])(?=(?<number>${form})(?![0-9]))`, 'g'));
const CARD_PREFIX = /^(?:card|pan|cc):/i;

/** The sentence that tells the client what is wrong with its `source`. Undefined if it is valid. */
export function sourceProblem(source: string): string | undefined {
  if (source.length < 1 || source.length > MOST_SOURCE || !VISIBLE_ASCII.test(source)) {
    return `'source' must be 1 to ${MOST_SOURCE} visible ASCII characters, without spaces: the token that stands for the payer at your processor.`;
  }
  if (isCardNumber(source.replace(CARD_PREFIX, ''))) {
    return "'source' looks like a card number, which must never come here. Send the token that your processor gives for the card.";
  }
  return undefined;
}

/** The sentence that tells the client what is wrong with its `returnUrl`. Undefined if it is valid. https keeps it secret on the way. */
export function returnUrlProblem(returnUrl: string): string | undefined {
  const isText = returnUrl.length <= MOST_RETURN_URL && VISIBLE_ASCII.test(returnUrl);
  return isText && isWebAddress(returnUrl) ? undefined : RETURN_URL_PROBLEM;
}

const RETURN_URL_PROBLEM = `'returnUrl' must be the address to which the payer comes back: https, or http on a loopback name, and at most ${MOST_RETURN_URL} visible ASCII characters.`;

function isWebAddress(text: string): boolean {
  // The platform also reads `https:shop.example`, and turns backslashes into slashes.
  if (!/^https?:\/\/[^\\]+$/i.test(text) || !URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' || isLoopback(hostname);
}

/**
 * The names of members in whose text a number looks like a card number. Nothing is refused for that reason, because one order number in ten
 * passes the check. A name that is such a number itself is not reported: the member is then `metadata`.
 */
export function membersLikeCards({ description, metadata = {} }: Content): readonly string[] {
  const members = new Set(holdsCardNumber(description ?? '') ? ['description'] : []);
  for (const [name, text] of Object.entries(metadata)) {
    if (holdsCardNumber(name)) members.add('metadata');
    else if (holdsCardNumber(text)) members.add(`metadata.${name}`);
  }
  return [...members];
}

const isCardNumber = (text: string) => CARD_NUMBERS.some((form) => form.test(text)) && passesLuhn(digitsOf(text));

function holdsCardNumber(text: string): boolean {
  return CARD_NUMBERS_WITHIN.some((form) =>
    [...text.matchAll(form)].some(({ groups }) => passesLuhn(digitsOf(groups?.number ?? ''))),
  );
}

const digitsOf = (number: string) => number.replace(/[ -]/g, '');

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
