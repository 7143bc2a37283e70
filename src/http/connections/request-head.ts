import type { IncomingMessage } from 'node:http';
import { isLoopback } from '../../platform/loopback.js';
import { isPercentEncoded } from '../../platform/percent-encoding.js';
import { publicErrors } from '../errors/catalogue.js';
import type { PublicError } from '../errors/public-error.js';
import { HEADERS_TOO_LARGE, MAX_TARGET_LENGTH } from './parser-errors.js';

/** More than any client or chain of proxies sends. The header section has room for twice as many empty ones. */
const MAX_HEADERS = 2_000;

/** `uri-host [ ":" port ]` (RFC 9110 7.2), or nothing, if the target has no authority. */
const HOST = /^(?:\[[0-9A-Za-z.:]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/;
const isHost = rememberingLast((host) => HOST.test(host));
const isHostOfThisMachine = rememberingLast((host) => isLoopback(host.replace(/:\d*$/, '')));
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i;

/**
 * The problem of a head that Node's parser lets pass and RFC 9112 does not; undefined when the head is as it should be. `framing`: the end
 * of the body is not sure, nor is anything after it, so the connection must be closed.
 */
export function headProblem(request: IncomingMessage): { error: PublicError; framing: boolean } | undefined {
  const { headers, httpVersion, url = '' } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return { error: publicErrors.unknownVersion(), framing: true };
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (coding !== 'chunked' || httpVersion === '1.0')) {
    const error = transferCodingProblem(coding, httpVersion);
    if (error) return { error, framing: true };
  }
  if (request.rawHeaders.length > 2 * MAX_HEADERS) return { error: HEADERS_TOO_LARGE, framing: false };
  const repeated = repeatedHeader(request)?.toLowerCase();
  if (repeated === 'host' || !isHostValid(request)) return { error: publicErrors.invalidHost(), framing: false };
  if (repeated !== undefined) return { error: publicErrors.repeatedHeader(), framing: false };
  if (url.length > MAX_TARGET_LENGTH) return { error: publicErrors.uriTooLong(MAX_TARGET_LENGTH), framing: false };
  // The framework would take such a query literally, and an account of a list would be another one. It refuses such a path itself.
  const query = url.indexOf('?');
  if (query >= 0 && url.includes('%', query) && !isPercentEncoded(url.slice(query)))
    return { error: publicErrors.invalidQuery(), framing: false };
  return undefined;
}

/** RFC 9112 6.1 and 6.3. */
export function transferCodingProblem(coding: string, httpVersion: string): PublicError | undefined {
  const codings = coding.split(',').map((name) => name.trim().toLowerCase());
  if (httpVersion === '1.0') return publicErrors.invalidFraming('HTTP/1.0 has no Transfer-Encoding.');
  if (codings.at(-1) !== 'chunked') return publicErrors.invalidFraming('The last transfer coding must be chunked.');
  return codings.length > 1 ? publicErrors.unknownTransferCoding() : undefined;
}

/** RFC 9112 3.2. Node asks for none if we answer for it. */
function isHostValid({ headers: { host }, httpVersion }: IncomingMessage): boolean {
  return host === undefined ? httpVersion === '1.0' : isHost(host);
}

/**
 * The name of a header that is sent again. Node takes the first of them, and a gateway in between may have taken the last (RFC 9110 5.3).
 */
function repeatedHeader({ rawHeaders }: IncomingMessage): string | undefined {
  let sent = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const bit = singletonBit(rawHeaders[index] as string);
    if ((sent & bit) !== 0) return rawHeaders[index];
    sent |= bit;
  }
  return undefined;
}

/** A bit for each header that may be sent once, because Node drops the others; 0 for the rest. For most names the length alone decides. */
function singletonBit(name: string): number {
  if (name.length === 4) return name.toLowerCase() === 'host' ? 1 : 0;
  if (name.length === 12) return name.toLowerCase() === 'content-type' ? 2 : 0;
  return name.length === 13 && name.toLowerCase() === 'authorization' ? 4 : 0;
}

/** True if Host names only this machine, such as localhost. Browsers always send Host; HTTP/1.0 clients may leave it out. */
export function isForThisMachine({ headers: { host } }: IncomingMessage): boolean {
  return !host || isHostOfThisMachine(host);
}

/**
 * True if Node's parser takes the bytes behind this request for another protocol. Node drops those that it has read with it, although nobody
 * upgrades, and reads on behind them: perhaps in the middle of a body.
 */
export function isUpgradeAsked({ headers: { connection, upgrade } }: IncomingMessage): boolean {
  return upgrade !== undefined && connection !== undefined && /upgrade/i.test(connection);
}

/** The target in origin-form. An origin server must accept the absolute form too (RFC 9112 3.2.2). */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(ABSOLUTE_FORM, '');
  if (path === target) return target;
  return path.startsWith('/') ? path : `/${path}`;
}

/** Remembers the last result, because most requests have the same Host: the check took 2 to 3 % of the time of a repeat. */
function rememberingLast(judge: (host: string) => boolean): (host: string) => boolean {
  let lastHost: string | undefined;
  let lastResult = false;
  return (host) => {
    if (host !== lastHost) {
      lastHost = host;
      lastResult = judge(host);
    }
    return lastResult;
  };
}
