import type { Call } from '../http/call.js';
import { jsonOf } from '../http/forms.js';
import type { Requests } from '../http/requests.js';
import type { Settings } from '../settings.js';

const GENERATE = { method: 'GET', path: '/api/server-generated/generate-key' } as const;
export const KEY = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Keys for one payment each, fetched ahead or when they are needed. */
export interface IdempotencyKeys {
  take(call: Call): Promise<string>;
  /** Fetches keys until `count` are stored. */
  fetchAhead(call: Call, count: number): Promise<void>;
  /** The service has forgotten one, so it may have forgotten all of them. */
  forget(): void;
}

export function createIdempotencyKeys(requests: Requests, { clock, keyLifeMs }: Settings): IdempotencyKeys {
  let ahead: { readonly key: string; readonly usableUntil: number }[] = [];

  /** Repeated like a read: a key that nobody received expires by itself. */
  const generate = (call: Call) =>
    requests.sendWithin(call, GENERATE, (answer) => {
      const key = jsonOf(answer);
      return typeof key === 'string' && KEY.test(key) ? key : undefined;
    });

  function dropOld(): void {
    ahead = ahead.filter(({ usableUntil }) => usableUntil > clock.now());
  }

  return {
    async take(call) {
      dropOld();
      return ahead.shift()?.key ?? generate(call);
    },
    async fetchAhead(call, count) {
      dropOld();
      while (ahead.length < count) {
        const usableUntil = clock.now() + keyLifeMs;
        ahead.push({ key: await generate(call), usableUntil });
      }
    },
    forget() {
      ahead = [];
    },
  };
}
