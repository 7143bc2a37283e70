import type { Scope } from '../../access/scopes.js';
import {
  CHUNK_EXTENSIONS_TOO_LARGE,
  HEADERS_TOO_LARGE,
  MALFORMED,
  MAX_TARGET_LENGTH,
  REQUEST_TOO_SLOW,
} from '../connections/parser-errors.js';
import { transferCodingProblem } from '../connections/request-head.js';
import { sentTwice } from '../errors/errors.js';
import type { PublicError } from '../errors/public-error.js';
import { type Operation, publicErrors } from '../errors/public-errors.js';
import { readJsonBody } from '../requests/json-body.js';
import { errorsOf, type RouteErrors } from './route-description.js';

/** What is known of a route besides its own description. */
interface RouteFacts {
  readonly scopes: 'open' | readonly Scope[];
  readonly isLimited: boolean;
  /** Undefined where no body is read. */
  readonly bodyLimitBytes: number | undefined;
  /** Names of its query. */
  readonly query: readonly string[];
  /** Undefined where it asks no store. */
  readonly operation: Operation | undefined;
  readonly isProbe: boolean;
}

/** Errors that follow from the kind of a route: its body, query, scopes, limits and store. */
export function commonErrors({
  scopes,
  isLimited,
  bodyLimitBytes,
  query,
  operation,
  isProbe,
}: RouteFacts): RouteErrors {
  return [
    ...(bodyLimitBytes === undefined
      ? []
      : [...BODY_ERRORS, { bodyTooLarge: publicErrors.bodyTooLarge(bodyLimitBytes) }]),
    ...(query[0] === undefined ? [] : [{ parameterTwice: sentTwice(query[0], 'querystring') }]),
    ...(scopes === 'open' ? [] : accessErrors(scopes)),
    ...(isLimited ? (['tooManyRequests'] as const) : []),
    ...(operation === undefined ? [] : storeErrors(operation)),
    ...(isProbe ? [] : NOT_NOW_ERRORS),
    HEAD_ERRORS,
  ];
}

const BODY_ERRORS: RouteErrors = [
  {
    notUtf8: () => readJsonBody(Buffer.from([0xff])),
    notJson: () => readJsonBody(Buffer.from('{"amount":')),
    nestedTooDeep: () => readJsonBody(Buffer.from('['.repeat(1_000))),
    chunkExtensionsTooLarge: CHUNK_EXTENSIONS_TOO_LARGE,
  },
  'unsupportedMediaType',
  'tooManyBodies',
];

function accessErrors(scopes: readonly Scope[]): RouteErrors {
  return [
    'credentialsMissing',
    'credentialsInvalid',
    { scopeMissing: publicErrors.scopeMissing(scopes) },
    'credentialsUnchecked',
  ];
}

function storeErrors(operation: Operation): RouteErrors {
  const storeUnavailable = publicErrors.storeUnavailable(operation);
  const storeOutcomeUnknown = publicErrors.storeOutcomeUnknown(operation);
  // A read that failed changed nothing.
  if (storeUnavailable.message === storeOutcomeUnknown.message) return [{ storeUnavailable }];
  return [{ storeUnavailable, storeOutcomeUnknown }];
}

/** Returned before a request is routed, also for unknown paths. */
const NOT_NOW_ERRORS: RouteErrors = ['starting', 'tooManyConnections'];

/** 400 for the head of a request, whatever it asks for: of every operation. */
export const HEAD_ERRORS = errorsOf([
  { malformedRequest: MALFORMED },
  'invalidHost',
  'repeatedHeader',
  'invalidPath',
  {
    transferCodingInOldVersion: transferCodingProblem('chunked', '1.0') as PublicError,
    transferCodingNotLast: transferCodingProblem('chunked, gzip', '1.1') as PublicError,
  },
]);

/** Any request may get one of these. They are described once. The first two come where there is no operation. */
export const ANY_REQUEST_ERRORS = errorsOf([
  'unknownRoute',
  'methodNotAllowed',
  { requestTooSlow: REQUEST_TOO_SLOW, uriTooLong: publicErrors.uriTooLong(MAX_TARGET_LENGTH) },
  'expectationFailed',
  'otherSite',
  'misdirected',
  { headersTooLarge: HEADERS_TOO_LARGE },
  'internal',
  'unknownMethod',
  'unknownTransferCoding',
  'unknownVersion',
  ...NOT_NOW_ERRORS,
]);
