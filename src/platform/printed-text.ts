const CONTROL_CHARACTER = /\p{Cc}/u;

/**
 * Characters by which foreign text could harm the text around it: control characters, which a terminal executes, and characters that end a
 * line for some readers or change the direction of text.
 */
export const HARMFUL = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/**
 * Well-formed Unicode on one line, without control characters. SQLite's driver cuts text at NUL, PostgreSQL refuses it, and neither
 * keeps half of a surrogate pair.
 */
export function isPrinted(text: string): boolean {
  return text.isWellFormed() && !CONTROL_CHARACTER.test(text);
}

/** Nearly the number of characters that people count: a surrogate pair is one. */
export function codePointsIn(text: string): number {
  return Array.from(text).length;
}
