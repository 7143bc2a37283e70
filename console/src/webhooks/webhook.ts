import type { Webhook, WebhookDetails } from '@idempay/client';
import type { Http } from '../http/http.js';
import { foreignAnswer, mayHaveArrived, sentenceOf } from '../http/service-error.js';

export type { Webhook };
export type SetAside = WebhookDetails['settlements'][number];

/** The most that may be set aside; then the endpoint gets no others. */
const MOST_SET_ASIDE = 1_000;
/** More settlements than this are not counted. */
export const MOST_COUNTED = 100;
/** A receiver that was away for a moment has taken everything by then. */
const BEHIND_AFTER_MS = 10_000;

/** The endpoints, and the service's time when it answered: the clock of this machine may be another one. */
export interface Listed {
  readonly webhooks: readonly Webhook[];
  readonly at: number;
}

export async function listWebhooks(http: Http, signal: AbortSignal): Promise<Listed> {
  const { body, headers } = await http.ask<Pick<Listed, 'webhooks'>>('api/webhooks', { signal });
  return { webhooks: body.webhooks, at: Date.parse(headers.get('date') ?? '') || Date.now() };
}

export async function listSetAside(http: Http, name: string, signal: AbortSignal): Promise<readonly SetAside[]> {
  return (await http.ask<WebhookDetails>(pathOf(name), { signal })).body.settlements;
}

/** The state of an endpoint, the worst first. */
export type State = 'stopped' | 'not served' | 'stands still' | 'behind' | 'delivering';

export function stateOf(webhook: Webhook, at: number): State {
  if (webhook.stoppedBy !== null) return 'stopped';
  if (webhook.receiver === null) return 'not served';
  const waitedMs = waitedMsOf(webhook, at);
  if (webhook.setAside >= MOST_SET_ASIDE && waitedMs > 0) return 'stands still';
  return waitedMs >= BEHIND_AFTER_MS ? 'behind' : 'delivering';
}

/** The age of the oldest settlement that waits; 0 if there is none. */
export function waitedMsOf({ behindSince }: Webhook, at: number): number {
  return behindSince === null ? 0 : Math.max(1, at - Date.parse(behindSince));
}

/** A change that an operator asks for. */
export interface Change {
  readonly verb: 'start' | 'stop' | 'resend';
  /** Only this settlement is sent again. If omitted, all that are set aside. */
  readonly key?: string;
}

/** `isDone`: the service itself says so. `sentence`: the result, and what can be done now. */
export interface ChangeResult {
  readonly isDone: boolean;
  readonly sentence: string;
}

/** Each change may be sent again, so an answer that was lost is no harm. */
export async function sendChange(http: Http, name: string, { verb, key }: Change): Promise<ChangeResult> {
  try {
    const path = `${pathOf(name)}/${verb}`;
    const { status, body } = await http.ask<Partial<Webhook> & { readonly resent?: unknown }>(path, {
      method: 'POST',
      query: { key },
    });
    if (verb === 'resend' ? !Number.isSafeInteger(body.resent) : body.name !== name) throw foreignAnswer(status);
    return { isDone: true, sentence: sentenceAfter(name, verb, Number(body.resent)) };
  } catch (error) {
    const unknown = mayHaveArrived(error) ? ' It may have been done: send it again, which changes nothing then.' : '';
    return { isDone: false, sentence: `${sentenceOf(error)}${unknown}` };
  }
}

function sentenceAfter(name: string, verb: Change['verb'], count: number): string {
  if (verb === 'start') return `${name} is served again, from where it was stopped.`;
  if (verb === 'stop') return `${name} is stopped. It gets nothing until it is started.`;
  if (count === 0) return `Nothing of ${name} is set aside any more.`;
  return `${count === 1 ? 'One settlement' : `${count} settlements`} of ${name} will be tried again within seconds.`;
}

const pathOf = (name: string) => `api/webhooks/${encodeURIComponent(name)}`;
