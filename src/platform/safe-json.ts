import { HARMFUL } from './printed-text.js';

/**
 * JSON on one line for every reader, that no terminal executes and no editor shows in another order: harmful characters are escapes. JSON
 * itself leaves most of them as they are. It means the same value.
 */
export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    HARMFUL,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
