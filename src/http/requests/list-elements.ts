/** Up to the next comma that is not in a quoted string. A string that is never closed ends the list. */
const ELEMENT = /(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?$))+/g;

/** The elements of a header that is a list (RFC 9110 5.6.1), in which quoted strings may hold commas. */
export function listElements(header: string): string[] {
  return header.match(ELEMENT) ?? [];
}
