/** DEL, C1, those that end a line for some readers, and those that change the direction of text: JSON itself leaves all of them as they are. */
const UNSAFE = /[\u007f-\u009f\u2028\u2029\p{Bidi_Control}]/gu;

/**
 * JSON on one line for every reader, that no terminal executes and no editor shows in another order: characters that do one of these
 * are escapes. It means the same value.
 */
export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
