import { type Clock, systemClock } from './clock.js';
import { InvalidRequestError } from './errors.js';

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

/** Called for each request, so it should cache its token. `refresh`: the last token got a 401. */
export type TokenSource = (request: { readonly refresh: boolean }) => string | Promise<string>;

export interface IdempayOptions {
  /** The address of the service, such as `https://idempay.example.com`; a path before `/api` is allowed. */
  readonly baseUrl: string;
  /** An API key of `npx idempay keys add`. Not together with `token`. */
  readonly apiKey?: string | undefined;
  /** Gives the token of an identity provider. Not together with `apiKey`. */
  readonly token?: TokenSource | undefined;
  /** Default deadline of a call with all its attempts, in milliseconds. */
  readonly deadlineMs?: number | undefined;
  /** How long one attempt may take, in milliseconds: longer than the service waits for its processor, or every slow payment is attempted twice. */
  readonly attemptTimeoutMs?: number | undefined;
  /**
   * How long the service is certain to know a key, in milliseconds: less than its `IDEMPOTENCY_TTL_SECONDS`. After that, keys that were
   * fetched ahead are discarded, and a create with a key is not repeated, because the service would create it again.
   */
  readonly keyLifeMs?: number | undefined;
  /** How many transactions, and how many payments, are remembered with their tags for conditional reads. */
  readonly remembered?: number | undefined;
  /** Must send a request once: one that repeats by itself may charge twice behind a proxy that forgets. */
  readonly fetch?: Fetch | undefined;
  readonly clock?: Clock | undefined;
  /** From 0 to 1, without 1. */
  readonly random?: (() => number) | undefined;
}

export interface Settings {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly token: TokenSource | undefined;
  readonly canRefresh: boolean;
  readonly deadlineMs: number;
  readonly attemptTimeoutMs: number;
  readonly keyLifeMs: number;
  readonly remembered: number;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Two attempts at a payment whose processor takes the longest, and the pauses between them. */
const DEADLINE_MS = 60_000;
/** The service waits 10 s for its processor by default, and some seconds for its stores. */
const ATTEMPT_TIMEOUT_MS = 20_000;
/** The life of a key is 24 h by default; it may be set to much less. */
const KEY_LIFE_MS = 300_000;
const REMEMBERED = 1_000;
/** A timer of more milliseconds fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Visible ASCII: what a header can carry. */
export const CREDENTIAL = /^[!-~]+$/;

/** Throws an InvalidRequestError that names the option. */
export function readSettings(options: IdempayOptions): Settings {
  const { apiKey, token, fetch = globalThis.fetch, clock = systemClock, random = Math.random } = options;
  if (apiKey !== undefined && token !== undefined) throw wrong("Give 'apiKey' or 'token', not both.");
  if (apiKey !== undefined && !(typeof apiKey === 'string' && CREDENTIAL.test(apiKey))) {
    throw wrong("'apiKey' must be a key such as idem_..., without spaces or line ends.");
  }
  return {
    baseUrl: baseUrlOf(options.baseUrl),
    token: apiKey === undefined ? token : () => apiKey,
    canRefresh: token !== undefined,
    deadlineMs: positive('deadlineMs', options.deadlineMs ?? DEADLINE_MS),
    attemptTimeoutMs: positive('attemptTimeoutMs', options.attemptTimeoutMs ?? ATTEMPT_TIMEOUT_MS),
    keyLifeMs: positive('keyLifeMs', options.keyLifeMs ?? KEY_LIFE_MS),
    remembered: positive('remembered', options.remembered ?? REMEMBERED),
    // A browser's fetch must be called with `window` as `this`.
    fetch: (url, init) => fetch(url, init),
    clock,
    random,
  };
}

export function positive(name: string, value: number): number {
  if (typeof value === 'number' && value > 0 && value <= LONGEST_TIMER_MS) return value;
  throw wrong(`'${name}' must be a number above 0, and at most ${LONGEST_TIMER_MS}.`);
}

function baseUrlOf(text: string): string {
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw wrong("'baseUrl' must be an http or https URL such as https://idempay.example.com.");
  }
  if (url.username || url.password) throw wrong("'baseUrl' must hold no credentials. Give 'apiKey' or 'token'.");
  if (url.search || url.hash) throw wrong("'baseUrl' must have no query and no fragment.");
  return url.origin + url.pathname.replace(/\/+$/, '');
}

const wrong = (message: string) => new InvalidRequestError(message);
