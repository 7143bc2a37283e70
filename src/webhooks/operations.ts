import type { EndpointRow, EndpointRows, SetAside } from './ports/endpoint-rows.js';

/** All that may be set aside. */
const MOST_LISTED = 1_000;

/** The endpoints for operators. Undefined, or false, if there is no such endpoint. */
export interface WebhookOperations extends Pick<EndpointRows, 'list' | 'start' | 'stop' | 'resend'> {
  find(name: string): Promise<{ readonly endpoint: EndpointRow; readonly setAside: readonly SetAside[] } | undefined>;
}

export function createWebhookOperations(rows: EndpointRows): WebhookOperations {
  return {
    list: rows.list,
    start: rows.start,
    stop: rows.stop,
    resend: rows.resend,
    async find(name) {
      const endpoint = await rows.find(name);
      return endpoint && { endpoint, setAside: await rows.listSetAside(name, MOST_LISTED) };
    },
  };
}
