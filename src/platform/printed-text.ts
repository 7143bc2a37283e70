const CONTROL_CHARACTER = /\p{Cc}/u;

/**
 * What foreign text must not do to what is around it: control characters, which a terminal executes, and those that end a line for some
 * readers or change the direction of text.
 */
export const HARMFUL = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/**
 * Well-formed Unicode on one line, without control characters. SQLite's driver cuts text at NUL, PostgreSQL refuses it, and neither
 * keeps half of a surrogate pair.
 */
export function isPrinted(text: string): boolean {
  return text.isWellFormed() && !CONTROL_CHARACTER.test(text);
}

/** What people count as characters, nearly: a surrogate pair is one. */
export function codePointsIn(text: string): number {
  return Array.from(text).length;
}
