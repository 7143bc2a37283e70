import { publicErrors } from '../errors/catalogue.js';
import type { PublicError } from '../errors/public-error.js';

/** Longer than any path and query that mean something here, shorter than the header section may be. */
export const MAX_TARGET_LENGTH = 10_000;

/** The error of Node's parser for bytes that are no request. */
export interface ParserError extends NodeJS.ErrnoException {
  /** The piece of the connection's bytes in which the error is, and its place there. */
  readonly rawPacket?: unknown;
  readonly bytesParsed?: number;
}

export const MALFORMED = publicErrors.refused(400, 'The request is not valid HTTP.');
export const CHUNK_EXTENSIONS_TOO_LARGE = publicErrors.refused(
  413,
  'The chunk extensions of the request body are too large.',
);
export const REQUEST_TOO_SLOW = publicErrors.refused(
  408,
  'The request did not arrive in time. Send it again at once and whole.',
);
const KNOWN: Readonly<Record<string, PublicError>> = {
  HPE_CHUNK_EXTENSIONS_OVERFLOW: CHUNK_EXTENSIONS_TOO_LARGE,
  ERR_HTTP_REQUEST_TIMEOUT: REQUEST_TOO_SLOW,
  // The preface of HTTP/2 without TLS (RFC 9113 3.4).
  HPE_PAUSED_H2_UPGRADE: publicErrors.unknownVersion(),
};
export const HEADERS_TOO_LARGE = publicErrors.refused(
  431,
  'The request headers are too large. Send fewer or shorter ones.',
);

const METHOD_CHARACTER = /[!#$%&'*+.^_`|~\w-]/;
const REQUEST_LINE = /^[!#$%&'*+.^_`|~\w-]+ +\S+ HTTP\/1\.[01]$/;
const UNKNOWN_VERSION_LINE = /^[!#$%&'*+.^_`|~\w-]+ +\S+ HTTP\/\d\.\d$/;
const STARTED_REQUEST_LINE = /^([A-Z]+) +\S+ +HTTP\/\d/gm;
const BEGUN_REQUEST_LINE = /^[!#$%&'*+.^_`|~\w-]+ +\S+$/;

export function parserErrorOf(error: ParserError): PublicError {
  switch (error.code) {
    // RFC 9110 9.1: an unknown method is 501; bytes without a request line are 400.
    case 'HPE_INVALID_METHOD':
      return REQUEST_LINE.test(lineWithMethodAt(error)) ? publicErrors.unknownMethod() : MALFORMED;
    case 'HPE_INVALID_VERSION':
      return UNKNOWN_VERSION_LINE.test(lineBefore(error, 'whole')) ? publicErrors.unknownVersion() : MALFORMED;
    // RFC 9112 3: a target that is too long is 414. One that comes in several pieces looks like a header.
    case 'HPE_HEADER_OVERFLOW':
      return BEGUN_REQUEST_LINE.test(lineBefore(error, 'so far'))
        ? publicErrors.uriTooLong(MAX_TARGET_LENGTH)
        : HEADERS_TOO_LARGE;
    default:
      return KNOWN[error.code ?? ''] ?? MALFORMED;
  }
}

/**
 * True if the invalid request began as HEAD: then the answer must have no body (RFC 9110 9.3.2). False for a request that arrived in
 * several pieces, whose beginning is not known here.
 */
export function isHeadRequest({ rawPacket, bytesParsed = 0 }: ParserError): boolean {
  const text = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1') : '';
  const end = text.indexOf('\n', bytesParsed);
  const lines = [...text.slice(0, end < 0 ? undefined : end).matchAll(STARTED_REQUEST_LINE)];
  return lines.at(-1)?.[1] === 'HEAD';
}

/** The parser stops within the method, which may follow directly on the body of the request before. */
function lineWithMethodAt({ rawPacket, bytesParsed = 0 }: ParserError): string {
  const text = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1') : '';
  let start = bytesParsed;
  while (start > 0 && METHOD_CHARACTER.test(text[start - 1] ?? '')) start -= 1;
  return untilLineEnd(text, start);
}

function lineBefore({ rawPacket, bytesParsed = 0 }: ParserError, extent: 'whole' | 'so far'): string {
  const text = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1') : '';
  const start = text.lastIndexOf('\n', bytesParsed - 1) + 1;
  return extent === 'whole' ? untilLineEnd(text, start) : text.slice(start, bytesParsed);
}

function untilLineEnd(text: string, start: number): string {
  const end = text.indexOf('\r\n', start);
  return end < 0 ? '' : text.slice(start, end);
}
