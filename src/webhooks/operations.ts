import type { FeedPage, FeedQuestion, SettlementFeed } from '../payments/settlement-feed.js';
import { StoreUnavailable } from '../platform/faults.js';
import type { Endpoint } from './endpoint-file.js';
import type { EndpointRow, EndpointRows, SetAside } from './ports/endpoint-rows.js';

/** The highest number of settlements that may be set aside for an endpoint. */
const MOST_LISTED = 1_000;
/** More settlements than this are not counted, because the rows that are counted are read whole. */
export const MOST_COUNTED = 100;
/** Pages of the feed that are read for the settlements of one client, of up to 10,000 rows each. */
const MOST_PAGES = 10;

/** The endpoints for operators. Undefined, or false, if there is no such endpoint. */
export interface WebhookOperations extends Pick<EndpointRows, 'start' | 'stop' | 'resend'> {
  list(): Promise<readonly ListedEndpoint[]>;
  find(name: string): Promise<EndpointDetails | undefined>;
}

export interface ListedEndpoint extends EndpointRow {
  /** Undefined if the endpoint is not in the file of this process. */
  readonly receiver: string | undefined;
  /** Undefined if that is so, too, or if the feed cannot tell at the moment. */
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

/** If `file` is omitted, this process has no endpoints. */
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

  /** The rows of endpoints are listed, and changed, also if the feed cannot be read. */
  async function behindOf(row: EndpointRow): Promise<Behind | undefined> {
    try {
      return await countAfter(row);
    } catch (fault) {
      if (fault instanceof StoreUnavailable) return undefined;
      throw fault;
    }
  }

  async function countAfter({ position, client }: EndpointRow): Promise<Behind | undefined> {
    let after: FeedQuestion['after'] = position;
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const page: FeedPage = await feed.read({ client, kind: undefined, limit: MOST_COUNTED, after });
      if (page.state !== 'page') {
        // The endpoint will begin at that time, too.
        after = { fromUs: page.fromUs };
      } else {
        const { settlements, isLast } = page;
        if (settlements.length > 0 || isLast)
          return { count: settlements.length, sinceUs: settlements[0]?.settledAtUs };
        after = page.next;
      }
    }
    return undefined;
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
