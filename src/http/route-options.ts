import type { Scope } from '../access/scopes.js';
import type { Operation } from './errors/catalogue.js';
import type { RouteDescription } from './openapi/route-description.js';
import type { RowsMember } from './requests/json-body.js';

/** A route's own settings (`config`), for the hooks that `server.ts` installs. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** One of these scopes is needed; `open`: no credential is needed. A route without it is not registered. */
    scopes?: 'open' | readonly Scope[];
    /** The description of the route in `/openapi.json`. `none`: it only refuses. A route without it is not registered. */
    description?: RouteDescription | 'none';
    /** The operation of the route, which decides the advice in a 503. */
    operation?: Operation;
    /**
     * Its errors are errors of payments, and tell programs that ask for it what is known of the charge (rule P20): all errors, or only the
     * errors of requests that name a reference. `of refund`: its errors tell the same of the refund.
     */
    tellsCharge?: true | 'with reference' | 'of refund';
    /** Its bodies are bodies of payments, which have a part of the budget to themselves. */
    isPayment?: true;
    /** The member of the body whose rows the route reads. */
    bodyRows?: RowsMember;
    /** Never limited: monitoring must always get an answer. */
    neverLimited?: true;
    /** A page for people, and its files: other sites may lead there. */
    page?: true;
  }
}
