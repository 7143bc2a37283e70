import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

export const INTERVAL_MS = 5_000;
export const KEEP_MS = 900_000;
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

/** In front of a service: everything is its own, but for `GET /api/live`, which has the samples of the test. */
export async function startLiveFeed(serviceUrl: string, earlier: readonly FeedSample[]) {
  let samples = earlier;
  let isBroken = false;
  const asked: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const { url = '', method, headers } = incoming;
    if (!url.startsWith('/api/live')) {
      const forwarded = request(`${serviceUrl}${url}`, { method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      });
      forwarded.on('error', () => outgoing.destroy());
      incoming.pipe(forwarded);
      return;
    }
    asked.push(url);
    if (isBroken) {
      incoming.socket.destroy();
      return;
    }
    const since = Number(new URLSearchParams(url.split('?')[1]).get('since') ?? 0);
    const younger = samples.filter(({ at }) => at > since);
    outgoing.writeHead(200, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
    outgoing.end(
      JSON.stringify({ intervalMs: INTERVAL_MS, keepMs: KEEP_MS, instance: instanceOf(0), samples: younger }),
    );
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    /** Path and query of each poll. */
    asked,
    /** For the polls from now on. */
    add(...more: readonly FeedSample[]) {
      const until = Math.max(...more.map(({ at }) => at));
      samples = [...samples, ...more].filter(({ at }) => at > until - KEEP_MS).sort((a, b) => a.at - b.at);
    },
    /** As a network that breaks, until it is mended. */
    breakNetwork(isSo: boolean) {
      isBroken = isSo;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface FeedSample {
  readonly at: number;
  readonly [member: string]: unknown;
}

export function instanceOf(process: number): string {
  return `00000000-0000-4000-8000-${String(process).padStart(12, '0')}`;
}

/** As a process of some load tells it. `step` counts the intervals since it started. */
export function sampleOf(process: number, at: number, step: number, more: object = {}): FeedSample {
  const wave = 1 + Math.sin(step / 9 + process) * 0.4;
  const processed = Math.round((400 + 120 * process) * wave);
  const replayed = Math.round(processed * 0.22);
  return {
    type: 'sample',
    at,
    instance: instanceOf(process),
    process: {
      host: `node-${process + 1}`,
      pid: 4_100 + process,
      version: '0.1.0',
      startedAt: at - step * INTERVAL_MS,
    },
    spanMs: INTERVAL_MS,
    payments: {
      processed,
      replayed,
      declined: step % 7 === 0 ? 6 : 2,
      in_progress: step % 5 === 0 ? 9 : 0,
      unknown: step % 60 > 50 ? 12 : 0,
    },
    latency: buckets(processed + replayed, 2 + Math.round(wave)),
    cache: { hit: Math.round(900 * wave), miss: 40, bypass: step % 60 > 50 ? 30 : 0 },
    lists: { sent: 12, notModified: Math.round(60 * wave) },
    attempts: { request: Math.round(14 * wave), recovery: step % 60 > 50 ? 4 : 0 },
    waiters: step % 5 === 0 ? 3 : 0,
    backlog: {
      payments: step % 60 > 50 ? (step % 60) - 50 : 0,
      oldestMs: step % 60 > 50 ? ((step % 60) - 50) * INTERVAL_MS : 0,
    },
    queues: {
      'postgresql claims': Math.round(3 * wave),
      'postgresql settlements': Math.round(2 * wave),
      'redis commands': 1,
    },
    commit: buckets(processed, 1),
    stores: { postgresql: true, redis: step % 60 < 54 },
    processorUp: step % 60 < 51,
    memoryBytes: 96e6 + process * 5e6 + (step % 40) * 4e5,
    loopDelay: buckets(INTERVAL_MS / 10, 0),
    ...more,
  };
}

/** Most of them in the bucket `middle`, fewer and fewer above. */
function buckets(total: number, middle: number) {
  const counts = BOUNDS.map((_, index) =>
    Math.round(index < middle ? total * 0.05 : (total * 0.7) / 4 ** (index - middle)),
  );
  return { bounds: BOUNDS, counts: [...counts, 0] };
}

/** The samples of this number of processes in the last KEEP_MS, oldest first; each process samples at moments of its own. */
export function lastMinutes(processes: number, until: number): readonly FeedSample[] {
  const steps = KEEP_MS / INTERVAL_MS;
  const samples = Array.from({ length: processes }, (_, process) =>
    Array.from({ length: steps }, (_, step) => {
      const at = until - (steps - 1 - step) * INTERVAL_MS - process * 1_300;
      return sampleOf(process, at, step);
    }),
  );
  return samples.flat().sort((a, b) => a.at - b.at);
}
