import { always, NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { LIVE_PARAMETERS, readSince } from './live-request.js';

const NO_BUFFERING = always('X-Accel-Buffering', 'A proxy passes each line on at once.', {
  const: 'no',
});
const LATENCY = {
  bounds: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  counts: [80, 20, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
};
const INSTANCE = '6f1d7c1e-0d5c-4b8e-9b53-1d8f3c1f7a10';
const LINES = [
  { type: 'hello', intervalMs: 5_000, keepMs: 900_000, instance: INSTANCE },
  {
    type: 'sample',
    at: 1_795_000_000_000,
    instance: INSTANCE,
    process: { host: 'pay-1', pid: 7, version: '0.1.0', startedAt: 1_794_990_000_000 },
    spanMs: 5_000,
    payments: { processed: 90, replayed: 16 },
    latency: LATENCY,
    cache: { hit: 40, miss: 2, bypass: 0 },
    lists: { sent: 3, notModified: 12 },
    commit: LATENCY,
    loopDelay: LATENCY,
    attempts: { request: 2, recovery: 0 },
    waiters: 0,
    backlog: { payments: 0, oldestMs: 0 },
    queues: { 'sqlite writes': 0 },
    stores: { sqlite: true },
    processorUp: true,
    memoryBytes: 120_000_000,
  },
  { type: 'beat', at: 1_795_000_005_000 },
];

export const live: RouteDescription = {
  operationId: 'watchLive',
  tag: 'Operations',
  summary: 'What each process does, as it happens',
  text: `A response that stays open, one JSON object for each line. First \`hello\`, then the samples of the last 15 minutes of all processes, then each new one; a \`beat\` where nothing came for five seconds. A sample has what \`/metrics\` of its process shows: counts of the last \`spanMs\` (\`payments\` by outcome, \`cache\`, \`lists\`, and the buckets of \`latency\` of \`POST /api/payment\`, \`commit\` and \`loopDelay\`, whose bounds are seconds), and the state of that moment. \`backlog\` is null until it was seen once.

The stream ends when its process stops, when its credentials end, and for a client that takes nothing for half a minute. Ask again then, with \`since\`: the time of the last sample less a minute, as another process' clock may differ; a sample is known by \`instance\` and \`at\`. While Redis is away only the process that is asked is shown. HEAD answers at once.`,
  parameters: {
    since: {
      text: 'Sends only those earlier samples that are after this time, in milliseconds since 1970.',
      schema: { type: 'integer', minimum: 0 },
      example: 1_795_000_000_000,
    },
  },
  answers: {
    200: {
      text: 'The stream.',
      headers: [NO_STORE, NO_BUFFERING],
      content: {
        mediaType: 'application/x-ndjson',
        schema: { type: 'string' },
        examples: { some: LINES.map((line) => `${JSON.stringify(line)}\n`).join('') },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ from: '' }, LIVE_PARAMETERS),
      invalidSince: () => readSince('now'),
    },
    'tooManyWatchers',
  ],
  asksNoStore: true,
};
