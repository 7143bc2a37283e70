import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AllSnapshotsInUse, reasonOf, StoreUnavailable } from '../../platform/faults.js';
import type { NowOrLater } from '../../platform/now-or-later.js';
import { PROBLEM_TYPE } from '../requests/accept.js';
import type { HttpMeasures } from '../requests/measures.js';
import { discardBody } from '../requests/unread-bodies.js';
import { type Operation, publicErrors, storeRefusal } from './catalogue.js';
import { formOf, PublicError, reasonPhrase, type Told } from './public-error.js';

/** Every answer that is an error, with the body of spec 2.5 (rule G1). */
export function installErrorHandler(
  app: FastifyInstance,
  onUnavailable: (fault: StoreUnavailable) => void,
  measures: Pick<HttpMeasures, 'refused'>,
): void {
  app.setErrorHandler<FastifyError | PublicError | StoreUnavailable>((error, request, reply) => {
    const answer = publicErrorOf(error, operationOf(request));
    const { countedAs } = answer.problem;
    if (countedAs) measures.refused(countedAs);
    const fault = answer.cause ?? error;
    // A store that is down fails every request alike: the log counts them. Only unexpected faults have a stack.
    if (fault instanceof StoreUnavailable) {
      onUnavailable(fault);
      request.log.debug({ reason: reasonOf(fault), requestId: request.id }, 'a store could not serve a request');
    } else if (answer.status === 500) {
      // The client disconnected before the answer was complete: not a fault of the service.
      const isClientGone =
        (error as FastifyError).code === 'ERR_STREAM_PREMATURE_CLOSE' && request.raw.socket.destroyed;
      const level = isClientGone ? 'debug' : 'error';
      request.log[level]({ err: error, requestId: request.id }, 'request failed');
    }
    return sendError(reply, answer);
  });
  app.setNotFoundHandler((_request, reply) => sendError(reply, publicErrors.unknownRoute()));
}

/**
 * Answers with the result, now or when it comes, for a handler that returns at once: the framework's own wrapping of a returned
 * promise costs as much as a replay. A fault of either, the result or `send`, is answered as an error.
 * `send` must not return the reply: it is a thenable, and would be waited for until the client has it all.
 */
export function answerWith<T>(reply: FastifyReply, result: NowOrLater<T>, send: (value: T) => NowOrLater<void>): void {
  const sent = result instanceof Promise ? result.then(send) : send(result);
  if (sent) reply.server.requestsUnderWay.add(sent.catch((fault: unknown) => void reply.send(fault)));
}

/** `told`: of a payment's charge, or of a refund. If omitted, an error of a payment or a refund says that it is unknown. */
export function sendError(reply: FastifyReply, error: PublicError, told?: Told): FastifyReply {
  const { headers, complete } = reply.request.raw;
  if (!complete) {
    // The rest of it may be endless, and Node would read it all.
    if (headers['transfer-encoding'] !== undefined) reply.raw.shouldKeepAlive = false;
    discardBody(reply.request);
  }
  reply.raw.statusMessage = reasonPhrase(error.status);
  const { contentType, text } = formOf(error, headers.accept, told ?? unknownIn(reply.request));
  return (
    reply
      .code(error.status)
      .headers(error.headers)
      .header('content-type', contentType)
      // Without this a cache may keep a 404 (RFC 9111 4.2.2).
      .header('cache-control', 'no-store')
      // To a string the framework would add a charset, which the media type of RFC 9457 does not have.
      .send(contentType === PROBLEM_TYPE ? Buffer.from(text) : text)
  );
}

function operationOf({ query, routeOptions }: FastifyRequest): Operation | undefined {
  const { operation } = routeOptions.config;
  return operation === 'pay' && Object.hasOwn(query as object, 'reference') ? 'pay by reference' : operation;
}

function unknownIn({ query, routeOptions }: FastifyRequest): Told | undefined {
  // A request that the router refused has no route.
  const tellsCharge = routeOptions?.config?.tellsCharge;
  if (tellsCharge === 'of refund') return { refund: 'unknown' };
  const isOfPayment = tellsCharge === 'with reference' ? Object.hasOwn(query as object, 'reference') : tellsCharge;
  return isOfPayment ? { charge: 'unknown' } : undefined;
}

/** The part of an exception that a client may know: below 500 what to do, at 500 nothing internal. */
export function publicErrorOf(
  error: FastifyError | PublicError | StoreUnavailable,
  operation?: Operation,
): PublicError {
  if (error instanceof PublicError) return error;
  if (error instanceof AllSnapshotsInUse) return publicErrors.tooManyLists(error);
  if (error instanceof StoreUnavailable) return storeRefusal(error, operation);
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return publicErrors.unsupportedMediaType();
    case 'FST_ERR_VALIDATION':
      return repeated(error);
    case 'FST_ERR_BAD_URL':
      return publicErrors.invalidPath();
  }
  const status = error.statusCode ?? 500;
  return status >= 400 && status < 500 ? publicErrors.refused(status, error.message) : publicErrors.internal(error);
}

/** All request schemas take strings, so the only possible violation is a repeated parameter. */
function repeated({ validation, validationContext }: FastifyError): PublicError {
  const name = validation?.[0]?.instancePath?.slice(1);
  return name
    ? sentTwice(name, validationContext ?? 'request')
    : publicErrors.invalidRequest('The request may be sent only once.');
}

/** `place`: in the words of the framework, `querystring`. */
export function sentTwice(name: string, place: string): PublicError {
  return publicErrors.invalidRequest(`'${name}' in the ${place} may be sent only once.`);
}
