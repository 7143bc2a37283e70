// `npm run bench -- tail [deployment]`: the causes of the slowest first payments at half of the capacity (`BENCH_SECONDS`, 20 or more, for
// enough of them). `tail-probe.ts` notes in the service and in the client what can let a request wait; each of the slowest requests is
// attributed to what overlaps most of its time, in the order of `CAUSES` where one is a part of another.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Opened } from '../testkit/opened.js';
import { pause } from '../testkit/time/until.js';
import { openClient, type SlowRequest } from './open-loop.js';
import { deploymentOf, type Options } from './options.js';
import { Payer } from './payers.js';
import { benchProgram, openService, temporaryFolder } from './servers.js';
import { median, roundedTable } from './statistics.js';
import { requireWrk, runWrk } from './wrk.js';

const SLOWEST = 1_000;
const PART = 0.5;
const UNMEASURED_SECONDS = 1;
const SPARE_KEYS = 1.1;
/** The probes write once in a second. */
const WRITTEN_AFTER_MS = 1_500;
/** A cause covers at least this part of the time of a request; otherwise it is not known. */
const LEAST_SHARE = 0.3;

/**
 * Those that are a part of another one first: a statement that waits for a collection is slow because of the collection. The client comes
 * last: a commit answers many requests at once, and the client reads them in one turn.
 */
const CAUSES = [
  'full collection',
  'young collection',
  'no free processor',
  'turn of the event loop',
  'commit with a checkpoint',
  'commit',
  'writer',
  'wait for a connection',
  'PostgreSQL',
  'Redis',
  'client',
] as const;
type Cause = (typeof CAUSES)[number];
const UNKNOWN = 'none of these';

export interface Interval {
  readonly what: string;
  readonly from: number;
  readonly to: number;
}

export async function measureTail(options: Options, opened: Opened, [name]: readonly string[]): Promise<void> {
  const deployment = deploymentOf(name);
  await requireWrk();
  const folder = await temporaryFolder(opened);
  const probe = pathToFileURL(benchProgram('tail-probe')).href;
  const settings = { NODE_OPTIONS: `--import=${probe}`, TAIL_LOG: join(folder, 'service') };
  const service = await openService(opened, deployment, { settings });
  const client = openClient(opened, service, { probe, log: join(folder, 'client') });
  const { seconds, connections } = options;
  const payer = new Payer('ours', service.url, folder);
  let rate = 0;
  // The first is a warm-up.
  for (let run = 0; run < 2; run += 1) {
    const result = await runWrk(service.url, await payer.firstPayments(2), { seconds: 2, connections });
    payer.noteRate(result);
    rate = PART * result.requestsPerSecond;
  }
  const all = seconds + UNMEASURED_SECONDS;
  await client.run({ mix: ['key'], count: Math.ceil(rate * all * SPARE_KEYS), connections });
  const paced = { mix: ['pay'], rate, connections, seconds: all, unmeasuredSeconds: UNMEASURED_SECONDS } as const;
  const result = await client.run({ ...paced, slowest: SLOWEST });
  assert.equal(result.lost, 0, 'a request had no answer');
  await pause(WRITTEN_AFTER_MS);
  const { slowest = [], count, p50Ms, p99Ms, p999Ms } = result;
  const figures = [p50Ms, p99Ms, p999Ms].map((ms) => ms.toFixed(2)).join(', ');
  console.log(
    `${deployment}: ${Math.round(rate)} first payments a second for ${seconds} s; p50, p99, p99.9: ${figures} ms`,
  );
  console.log(`The slowest ${slowest.length} of ${count}:\n${tableOf(slowest, await intervalsIn(folder))}`);
}

async function intervalsIn(folder: string): Promise<Interval[]> {
  const names = (await readdir(folder)).filter((name) => /^(service|client)\./.test(name));
  const texts = await Promise.all(
    names.map(async (name) => ({ of: name.split('.')[0], text: await readFile(join(folder, name), 'utf8') })),
  );
  return texts.flatMap(({ of, text }) =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const [what = '', from, to] = line.split('\t');
        return { what: of === 'client' ? 'client' : what, from: Number(from), to: Number(to) };
      }),
  );
}

/** By cause: how many of the requests, and their time. */
export function tableOf(slowest: readonly SlowRequest[], intervals: readonly Interval[]): string {
  const tookMs = new Map<Cause | typeof UNKNOWN, number[]>();
  for (const request of slowest) {
    const cause = causeOf(request, intervals);
    tookMs.set(cause, [...(tookMs.get(cause) ?? []), request.answeredAt - request.dueAt]);
  }
  const rows = [...tookMs].toSorted(([, one], [, other]) => other.length - one.length);
  return roundedTable(
    ['cause', 'share', 'median, ms', 'longest, ms'],
    rows.map(([cause, ms]) => [
      cause,
      `${Math.round((100 * ms.length) / slowest.length)} %`,
      median(ms),
      Math.max(...ms),
    ]),
  );
}

/** What covers the most of the request's time; of a cause and what contains it, the cause. */
export function causeOf(request: SlowRequest, intervals: readonly Interval[]): Cause | typeof UNKNOWN {
  const { dueAt, sentAt, answeredAt } = request;
  const during = intervals.filter(({ from, to }) => from < answeredAt && to > dueAt);
  const left: (readonly [from: number, to: number])[] = [[dueAt, answeredAt]];
  let longest: { cause: Cause | typeof UNKNOWN; ms: number } = { cause: UNKNOWN, ms: 0 };
  for (const cause of CAUSES) {
    const own = during.filter(({ what }) => what === cause).map(({ from, to }) => [from, to] as const);
    // The wait for a connection of the client is its own, too.
    if (cause === 'client') own.push([dueAt, sentAt]);
    const ms = takeFrom(left, own);
    if (ms > longest.ms) longest = { cause, ms };
  }
  return longest.ms >= LEAST_SHARE * (answeredAt - dueAt) ? longest.cause : UNKNOWN;
}

/** Takes the intervals out of what is left, and returns how much that was. */
function takeFrom(left: (readonly [number, number])[], taken: readonly (readonly [number, number])[]): number {
  const before = lengthOf(left);
  for (const [from, to] of taken) {
    const pieces = left.flatMap(([begin, end]): (readonly [number, number])[] => [
      [begin, Math.min(end, from)],
      [Math.max(begin, to), end],
    ]);
    left.splice(0, left.length, ...pieces.filter(([begin, end]) => end > begin));
  }
  return before - lengthOf(left);
}

const lengthOf = (pieces: readonly (readonly [number, number])[]) =>
  pieces.reduce((sum, [from, to]) => sum + to - from, 0);
