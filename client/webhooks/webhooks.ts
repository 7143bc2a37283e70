import { InvalidRequestError } from '../errors.js';
import type { CallOptions } from '../http/call.js';
import type { Changes } from '../http/changes.js';
import { jsonOf } from '../http/forms.js';
import { queryOf } from '../http/pages.js';
import { isObject } from '../http/proof.js';
import type { Read, Requests } from '../http/requests.js';
import type { Webhook, WebhookDetails } from '../representations.js';

/** For operators: the endpoints that the service tells how payments and refunds ended. Each call may be repeated. */
export interface Webhooks {
  /** Every endpoint that was ever served, by name. */
  list(options?: CallOptions): Promise<readonly Webhook[]>;
  /** One endpoint, with the settlements that are set aside. */
  get(name: string, options?: CallOptions): Promise<WebhookDetails>;
  /** Serves an endpoint again, from where it was stopped. */
  start(name: string, options?: CallOptions): Promise<Webhook>;
  /** Nothing more is sent to it until it is started. */
  stop(name: string, options?: CallOptions): Promise<Webhook>;
  /** Tries settlements that are set aside again: this one, or all if no key is given. Resolves with the number of them. */
  resend(name: string, options?: CallOptions & { readonly key?: string | undefined }): Promise<number>;
}

export function createWebhooks(requests: Requests, change: Changes): Webhooks {
  const changed = <T>(path: string, read: Read<T>, options: CallOptions) =>
    change(options, { request: { method: 'POST', path }, kind: 'repeatable', read, afterwards: (refusal) => refusal });

  return {
    list: (options = {}) =>
      requests.send(options, { method: 'GET', path: '/api/webhooks' }, (answer) => {
        const { webhooks } = (jsonOf(answer) ?? {}) as { readonly webhooks?: unknown };
        return Array.isArray(webhooks) && webhooks.every(isWebhook) ? Object.freeze(webhooks as Webhook[]) : undefined;
      }),

    get: async (name, options = {}) =>
      requests.send(options, { method: 'GET', path: pathOf(name) }, (answer) => {
        const webhook = jsonOf(answer) as WebhookDetails | undefined;
        return isWebhook(webhook) && webhook.name === name && Array.isArray(webhook.settlements) ? webhook : undefined;
      }),

    start: async (name, options = {}) => changed(`${pathOf(name)}/start`, webhookNamed(name), options),
    stop: async (name, options = {}) => changed(`${pathOf(name)}/stop`, webhookNamed(name), options),

    resend: async (name, { key, ...options } = {}) => {
      // An empty one would send all of them.
      if (key === '') throw new InvalidRequestError("'key' must be the key of a settlement.");
      return changed(
        `${pathOf(name)}/resend${queryOf({ key })}`,
        (answer) => {
          const { resent } = (jsonOf(answer) ?? {}) as { readonly resent?: unknown };
          return Number.isSafeInteger(resent) ? (resent as number) : undefined;
        },
        options,
      );
    },
  };
}

function webhookNamed(name: string): Read<Webhook> {
  return (answer) => {
    const webhook = jsonOf(answer);
    return isWebhook(webhook) && webhook.name === name ? webhook : undefined;
  };
}

function isWebhook(value: unknown): value is Webhook {
  return isObject(value) && typeof value.name === 'string' && Number.isSafeInteger(value.setAside);
}

function pathOf(name: string): string {
  // An empty one would be another path.
  if (typeof name !== 'string' || name === '') throw new InvalidRequestError("'name' must be the name of an endpoint.");
  return `/api/webhooks/${encodeURIComponent(name)}`;
}
