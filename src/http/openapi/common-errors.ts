import type { Scope } from '../../access/scopes.js';
import { StoreUnavailable } from '../../platform/faults.js';
import {
  CHUNK_EXTENSIONS_TOO_LARGE,
  HEADERS_TOO_LARGE,
  MALFORMED,
  MAX_TARGET_LENGTH,
  REQUEST_TOO_SLOW,
} from '../connections/parser-errors.js';
import { transferCodingProblem } from '../connections/request-head.js';
import { publicErrorOf } from '../errors/errors.js';
import { type Operation, type PublicError, publicErrors } from '../errors/public-errors.js';
import { readJsonBody } from '../requests/json-body.js';
import { refusalBy, repeatedParameter } from './examples.js';

type Errors = Readonly<Record<string, PublicError>>;

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
export function commonErrors({ scopes, isLimited, bodyLimitBytes, query, operation, isProbe }: RouteFacts): Errors {
  return {
    ...(bodyLimitBytes !== undefined && {
      ...BODY_ERRORS,
      bodyTooLarge: publicErrors.bodyTooLarge(bodyLimitBytes),
    }),
    ...(query[0] !== undefined && { parameterTwice: repeatedParameter(query[0]) }),
    ...(scopes !== 'open' && {
      credentialsMissing: publicErrors.credentialsMissing(),
      credentialsInvalid: publicErrors.credentialsInvalid(),
      scopeMissing: publicErrors.scopeMissing(scopes),
      credentialsUnchecked: publicErrors.credentialsUnchecked(),
    }),
    ...(isLimited && { tooManyRequests: publicErrors.tooManyRequests(600, 2) }),
    ...(operation && storeErrors(operation)),
    ...(!isProbe && NOT_NOW_ERRORS),
    ...HEAD_ERRORS,
  };
}

const BODY_ERRORS: Errors = {
  notUtf8: refusalBy(() => readJsonBody(Buffer.from([0xff]))),
  notJson: refusalBy(() => readJsonBody(Buffer.from('{"amount":'))),
  nestedTooDeep: refusalBy(() => readJsonBody(Buffer.from('['.repeat(1_000)))),
  chunkExtensionsTooLarge: CHUNK_EXTENSIONS_TOO_LARGE,
  unsupportedMediaType: publicErrors.unsupportedMediaType(),
  tooManyBodies: publicErrors.tooManyBodies(),
};

function storeErrors(operation: Operation): Errors {
  const unchanged = publicErrorOf(new StoreUnavailable('unchanged', ''), operation);
  const unknown = publicErrorOf(new StoreUnavailable('unknown', ''), operation);
  if (unchanged.message === unknown.message) return { storeUnavailable: unchanged };
  return { storeUnavailable: unchanged, storeOutcomeUnknown: unknown };
}

/** Returned before a request is routed, also for unknown paths. */
const NOT_NOW_ERRORS: Errors = {
  starting: publicErrors.starting(),
  tooManyConnections: publicErrors.tooManyConnections(),
};

/** 400 for the head of a request, whatever it asks for: of every operation. */
export const HEAD_ERRORS: Errors = {
  malformedRequest: MALFORMED,
  invalidHost: publicErrors.invalidHost(),
  repeatedHeader: publicErrors.repeatedHeader(),
  invalidPath: publicErrors.invalidPath(),
  transferCodingInOldVersion: transferCodingProblem('chunked', '1.0') as PublicError,
  transferCodingNotLast: transferCodingProblem('chunked, gzip', '1.1') as PublicError,
};

/** Any request may get one of these. They are described once. The first two come where there is no operation. */
export const ANY_REQUEST_ERRORS: Errors = {
  unknownRoute: publicErrors.unknownRoute(),
  methodNotAllowed: publicErrors.methodNotAllowed('GET, HEAD'),
  requestTooSlow: REQUEST_TOO_SLOW,
  uriTooLong: publicErrors.uriTooLong(MAX_TARGET_LENGTH),
  expectationFailed: publicErrors.expectationFailed(),
  otherSite: publicErrors.otherSite(),
  misdirected: publicErrors.misdirected(),
  headersTooLarge: HEADERS_TOO_LARGE,
  internal: publicErrors.internal(undefined),
  unknownMethod: publicErrors.unknownMethod(),
  unknownTransferCoding: publicErrors.unknownTransferCoding(),
  unknownVersion: publicErrors.unknownVersion(),
  ...NOT_NOW_ERRORS,
};
