import type { SettlementFeed } from '../payments/settlement-feed.js';
import type { Endpoint } from './endpoint-file.js';
import type { EndpointRow, EndpointRows, SetAside } from './ports/endpoint-rows.js';

/** All that may be set aside. */
const MOST_LISTED = 1_000;
/** More settlements than this are not counted. */
export const MOST_COUNTED = 1_000;

/** The endpoints for operators. Undefined, or false, if there is no such endpoint. */
export interface WebhookOperations extends Pick<EndpointRows, 'start' | 'stop' | 'resend'> {
  list(): Promise<readonly ListedEndpoint[]>;
  find(name: string): Promise<EndpointDetails | undefined>;
}

export interface ListedEndpoint extends EndpointRow {
  /** Both are undefined if the endpoint is not in the file of this process. */
  readonly receiver: string | undefined;
  readonly behind: Behind | undefined;
}

/** The settlements after the position of an endpoint. */
export interface Behind {
  /** At most `MOST_COUNTED`. */
  readonly count: number;
  /** When the oldest was settled, in microseconds since the epoch; undefined if there is none. */
  readonly sinceUs: number | undefined;
}

export interface EndpointDetails {
  readonly endpoint: ListedEndpoint;
  readonly setAside: readonly SetAside[];
}

/** `file`: omitted if this process has no endpoints. */
export function createWebhookOperations(
  rows: EndpointRows,
  feed: Pick<SettlementFeed, 'read'>,
  file?: { readonly current: readonly Endpoint[] },
): WebhookOperations {
  async function listed(row: EndpointRow): Promise<ListedEndpoint> {
    const endpoint = file?.current.find(({ name }) => name === row.name);
    if (!endpoint) return { ...row, receiver: undefined, behind: undefined };
    return { ...row, receiver: new URL(endpoint.url).origin, behind: await behindOf(row) };
  }

  async function behindOf({ position, client }: EndpointRow): Promise<Behind> {
    const question = { client, kind: undefined, limit: MOST_COUNTED };
    let page = await feed.read({ ...question, after: position });
    // The endpoint will begin at that time, too.
    if (page.state !== 'page') page = await feed.read({ ...question, after: { fromUs: page.fromUs } });
    if (page.state !== 'page') return { count: 0, sinceUs: undefined };
    return { count: page.settlements.length, sinceUs: page.settlements[0]?.settledAtUs };
  }

  return {
    start: rows.start,
    stop: rows.stop,
    resend: rows.resend,
    async list() {
      const found: ListedEndpoint[] = [];
      // One after the other, because each may read a page of the feed.
      for (const row of await rows.list()) found.push(await listed(row));
      return found;
    },
    async find(name) {
      const row = await rows.find(name);
      return row && { endpoint: await listed(row), setAside: await rows.listSetAside(name, MOST_LISTED) };
    },
  };
}
