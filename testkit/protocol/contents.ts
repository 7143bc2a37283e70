import type { Content } from '#idempay/payments/values/content.js';

/** How each source begins, and nothing else does. */
export const SOURCE_START = 'tok_';
/** What changes on its way through a store, if anything does. */
const ODD = ' \u{1f45f}\n"\\\' \u00e9 e\u0301 ';

/**
 * What a request is about, one kind after the other: now and then nothing, and else another source or text for each name. No part of it
 * is drawn from an RNG, so the histories of seeds are what they would be without content.
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

/** As text, in which every character counts. */
export const textOf = ({ source, description, metadata }: Shown = {}): string =>
  JSON.stringify([source ?? null, description ?? null, metadata ?? null]);
