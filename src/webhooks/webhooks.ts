import { sleep } from '../platform/clock.js';
import type { RereadFile } from '../platform/reread-file.js';
import { MOST_OPEN } from './delivery-window.js';
import type { Endpoint } from './endpoint-file.js';
import { EndpointRun, LEASE_MS, RENEW_EVERY_MS, type RunParts, SET_ASIDE_AT_ONCE } from './endpoint-run.js';
import { createReceivers, type Receivers } from './receivers.js';
import type { WebhookCounts } from './webhook-events.js';

/** The pause between two looks at the endpoints of the file, which is read again as often. */
const LOOK_AT_FILE_MS = 1_000;
const RETRY_AFTER_FAULT_MS = 1_000;
/** Everything that is under way to one endpoint: deliveries, one beyond them, and those that are set aside. */
const CONNECTIONS = MOST_OPEN + 1 + SET_ASIDE_AT_ONCE;

/** Tells each endpoint of the file how payments and refunds ended. */
export interface Webhooks {
  start(): void;
  /** Begins nothing more, and gives the leases back. */
  stop(): Promise<void>;
  /** The counts by the names of the endpoints that this process has tried to serve. */
  readonly counts: ReadonlyMap<string, WebhookCounts>;
}

interface Server {
  readonly client: string | undefined;
  end(): void;
  ended: Promise<void>;
}

export function createWebhooks(
  file: Pick<RereadFile<readonly Endpoint[]>, 'current' | 'close'>,
  newOwner: () => string,
  parts: Omit<RunParts, 'receivers'>,
  receivers: Receivers = createReceivers(parts.clock, CONNECTIONS),
): Webhooks {
  const { rows, clock } = parts;
  const servers = new Map<string, Server>();
  const ending = new Set<Promise<void>>();
  const counts = new Map<string, WebhookCounts>();
  let cancelLook = () => {};

  /** A server for each endpoint of the file. One whose client has changed is another endpoint. */
  function look(): void {
    const wanted = new Map(file.current.map((endpoint) => [endpoint.name, endpoint]));
    for (const [name, server] of servers) {
      if (wanted.has(name) && wanted.get(name)?.client === server.client) continue;
      servers.delete(name);
      counts.delete(name);
      endLater(server);
    }
    for (const endpoint of wanted.values())
      if (!servers.has(endpoint.name)) servers.set(endpoint.name, serve(endpoint));
    cancelLook = clock.after(LOOK_AT_FILE_MS, look);
  }

  function endLater(server: Server): void {
    server.end();
    const ended = server.ended.finally(() => ending.delete(ended));
    ending.add(ended);
  }

  function serve(first: Endpoint): Server {
    const { name, client } = first;
    const count = { isServed: false, isStopped: false, behindMs: 0, setAside: 0, deliveries: { taken: 0, refused: 0 } };
    counts.set(name, count);
    let last = first;
    /** As the file has it now. The file may have removed it, or given it to another client, since the last look: then as it was before. */
    function present(): Endpoint {
      const found = file.current.find((endpoint) => endpoint.name === name);
      if (found && found.client === client) last = found;
      return last;
    }
    const over = new AbortController();
    let run: EndpointRun | undefined;

    async function takeTurn(): Promise<number> {
      const lease = { name, owner: newOwner() };
      const askedAt = clock.monotonic();
      const taken = await rows.take({ ...lease, client, leaseMs: LEASE_MS });
      count.isStopped = taken.state === 'stopped';
      if (taken.state === 'new') {
        const { next: position } = await bound();
        await rows.begin({ name, client, position, leaseMs: LEASE_MS });
        return 0;
      }
      if (taken.state !== 'taken') return RENEW_EVERY_MS;
      if (over.signal.aborted) {
        await rows.release(lease);
        return 0;
      }
      run = new EndpointRun(present, lease, taken, askedAt, count, { ...parts, receivers });
      await run.ended();
      run = undefined;
      return 0;
    }

    async function bound() {
      const page = await parts.feed.read({ after: 'now', client, kind: undefined, limit: 1 });
      if (page.state !== 'page') throw new Error('the bound of the feed is no page');
      return page;
    }

    async function serveOn(): Promise<void> {
      while (!over.signal.aborted) {
        const pauseMs = await takeTurn().catch((fault) => {
          parts.events.fault(fault);
          return RETRY_AFTER_FAULT_MS;
        });
        await sleep(clock, pauseMs, over.signal);
      }
    }

    return {
      client,
      end() {
        over.abort();
        run?.end();
      },
      ended: serveOn(),
    };
  }

  return {
    counts,
    start: look,
    async stop() {
      cancelLook();
      file.close();
      for (const server of servers.values()) endLater(server);
      servers.clear();
      await Promise.all(ending);
      await receivers.close();
    },
  };
}
