import type { Content } from '#idempay/payments/values/content.js';

/** Each source begins with this, and no other text does. */
export const SOURCE_START = 'tok_';
/** Characters that a store changes, if it changes any. */
const ODD = ' \u{1f45f}\n"\\\' \u00e9 e\u0301 ';

/**
 * The content of request `n`: four kinds in turn, of which one is none. Texts and sources have `name` in them, so each name has its own.
 * Nothing is drawn from an RNG, so a seed has the history that it would have without content.
 */
export function someContent(n: number, name: string): Content | undefined {
  const source = `${SOURCE_START}${name}`;
  const description = `Item ${name}${ODD}`;
  switch (n % 4) {
    case 0:
      return { source };
    case 1:
      return { source, description, metadata: { b: name, a: ODD, constructor: '' } };
    case 2:
      return { description };
    default:
      return undefined;
  }
}

type Shown = { readonly [member in keyof Content]?: Content[member] | null };

/** A content as text, to be compared character by character. */
export const textOf = ({ source, description, metadata }: Shown = {}): string =>
  JSON.stringify([source ?? null, description ?? null, metadata ?? null]);
