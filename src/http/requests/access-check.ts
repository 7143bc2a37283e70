import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Access } from '../../access/access.js';
import type { AuthenticationResult, Caller } from '../../access/caller.js';
import type { Scope } from '../../access/scopes.js';
import { publicErrors } from '../errors/catalogue.js';
import { keepSmall } from './unread-bodies.js';

declare module 'fastify' {
  interface FastifyInstance {
    /** The scopes that each route needs, by method and path. */
    readonly routeScopes: ReadonlyMap<string, 'open' | readonly Scope[]>;
    /** For an answer that goes on or was waited for: what its request would be refused with now. Undefined if it would pass with one of these. */
    refusalNow(request: FastifyRequest, scopes: readonly Scope[]): Promise<Error | undefined>;
  }
  interface FastifyRequest {
    /** Undefined at an open route, and everywhere without `AUTH=required`. Its scopes are checked after the limit of requests. */
    caller: Caller | undefined;
  }
}

/**
 * Lets a request of a route with scopes pass only with valid credentials (rule A4), before its body is read; `checkScopes` must follow.
 * A route that declares nothing is an error at the start, so that none is open by mistake. Without `access` everybody may do everything.
 */
export function checkCredentials(app: FastifyInstance, access: Access | undefined): void {
  const routeScopes = new Map<string, 'open' | readonly Scope[]>();
  app.decorate('routeScopes', routeScopes);
  app.addHook('onRoute', ({ method, url, config }) => {
    if (!config?.scopes) throw new Error(`the route ${method} ${url} declares no scopes`);
    for (const name of [method].flat()) routeScopes.set(`${name} ${url}`, config.scopes);
  });
  app.decorateRequest('caller', undefined);
  app.decorate('refusalNow', async ({ headers }, scopes) =>
    access ? refusalOf(await access.authenticate(headers.authorization), scopes) : undefined,
  );
  if (!access) return;

  app.addHook('onRequest', (request, _reply, done) => {
    const { scopes } = request.routeOptions.config;
    if (scopes === undefined || scopes === 'open') {
      done();
      return;
    }
    const result = access.authenticate(request.headers.authorization);
    if (!(result instanceof Promise)) {
      done(noteCaller(request, result));
      return;
    }
    const endKeeping = keepSmall(request.raw);
    result.finally(endKeeping).then((later) => done(noteCaller(request, later)), done);
  });
}

/**
 * Lets a caller pass only with the scope of the route (rule A4), before the body is read. After `checkCredentials` and the limit of
 * requests, so that a client that lacks the scope is limited too.
 */
export function checkScopes(app: FastifyInstance, access: Access | undefined): void {
  if (!access) return;
  app.addHook('onRequest', ({ caller, routeOptions }, _reply, done) => {
    const { scopes } = routeOptions.config;
    done(scopes === undefined || scopes === 'open' ? undefined : scopeRefusal(caller, scopes));
  });
}

/** Stores the caller in the request, or returns the error of a refusal. */
function noteCaller(request: FastifyRequest, result: AuthenticationResult): Error | undefined {
  if (result.state !== 'authenticated') return credentialRefusal(result.state);
  request.caller = result.caller;
  return undefined;
}

function refusalOf(result: AuthenticationResult, scopes: readonly Scope[]): Error | undefined {
  return result.state === 'authenticated' ? scopeRefusal(result.caller, scopes) : credentialRefusal(result.state);
}

function scopeRefusal(caller: Caller | undefined, scopes: readonly Scope[]): Error | undefined {
  return scopes.some((scope) => caller?.scopes.has(scope)) ? undefined : publicErrors.scopeMissing(scopes);
}

function credentialRefusal(state: Exclude<AuthenticationResult['state'], 'authenticated'>): Error {
  switch (state) {
    case 'missing':
      return publicErrors.credentialsMissing();
    case 'invalid':
      return publicErrors.credentialsInvalid();
    case 'unavailable':
      return publicErrors.credentialsUnchecked();
  }
}

/**
 * The client whose payments a record, a timeline, a list or an export shows: undefined for all payments. Only for reading: a caller with
 * `payments:read:all` changes its own payments at most.
 */
export function readableClient(request: FastifyRequest): string | undefined {
  return request.caller?.scopes.has('payments:read:all') ? undefined : visibleClient(request);
}

/** The client whose idempotency keys the request may see: undefined for all keys (rule A5). */
export function visibleClient({ caller }: Pick<FastifyRequest, 'caller'>): string | undefined {
  return caller?.scopes.has('operations') ? undefined : caller?.client;
}
