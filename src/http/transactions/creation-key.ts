import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CreationEndpoint, CreationName } from '../../transactions/creation.js';
import { publicErrors } from '../errors/public-errors.js';

const KEY = /^[\x21-\x7e]{1,64}$/;
/** A string of structured fields (RFC 8941 3.3.3), as the IETF draft of the header wants it. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/;
const ESCAPED = /\\(["\\])/g;

/** `onRequest` of a create: a key that cannot be one is refused before the body is read. */
export function refuseInvalidKey(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  done(readCreationKey(headerOf(request)).state === 'invalid' ? publicErrors.invalidCreationKey() : undefined);
}

/** The key of a create and whose it is; undefined where none was sent. */
export function creationNameOf(request: FastifyRequest, endpoint: CreationEndpoint): CreationName | undefined {
  const header = readCreationKey(headerOf(request));
  return header.state === 'present' ? { client: request.caller?.client ?? '', endpoint, key: header.key } : undefined;
}

export type CreationKeyHeader = { state: 'absent' } | { state: 'invalid' } | { state: 'present'; key: string };

/**
 * The client's own key (rule T9), as it was sent; `"key"` is the same key as `key`. An empty key is invalid, because the
 * client relies on it. So is a key that is sent twice: Node joins the two with ", ".
 */
export function readCreationKey(header: string | undefined): CreationKeyHeader {
  if (header === undefined) return { state: 'absent' };
  const value = header.trim();
  const [, quoted] = QUOTED.exec(value) ?? [];
  const key = quoted === undefined ? value : quoted.replace(ESCAPED, '$1');
  const isUnclosed = quoted === undefined && value.startsWith('"');
  return KEY.test(key) && !isUnclosed ? { state: 'present', key } : { state: 'invalid' };
}

function headerOf(request: FastifyRequest): string | undefined {
  return request.headers['idempotency-key'] as string | undefined;
}
