import { type JsonText, JsonTextError, type RowsMember, readJsonText } from '../../platform/json-text.js';
import { publicErrors } from '../errors/catalogue.js';

export { type JsonMember, type JsonText as JsonBody, membersOf, type RowsMember } from '../../platform/json-text.js';

/** Throws PublicError 400 for a body that cannot be read, or that has more rows than `rowsMember` says. */
export function readJsonBody(bytes: Buffer, rowsMember?: RowsMember): JsonText {
  try {
    return readJsonText(bytes, rowsMember);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw error.isRead ? publicErrors.invalidBody(error.message) : publicErrors.unreadableBody(error.message);
  }
}
