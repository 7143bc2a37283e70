// The latency of a request while the service has capacity left: at a fixed rate of half and of 80 % of its capacity. The rate does not wait
// for answers, and a latency counts from when the request was due (no coordinated omission).
//
// wrk measures the capacity of the same service just before each round: a shared machine may be half as fast a minute later, and half of
// the earlier capacity would be all of it. Just after each round a bare Fastify gets the same rate: its latency is the machine's share.
// With BENCH_BEFORE the version before, with stores of its own, gets the same rate in the same round.
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import type { Opened } from '../testkit/opened.js';
import { type OpenLoopClient, openClient, type PlanResult } from './open-loop.js';
import { type Deployment, deploymentOf, isAsked, type Options } from './options.js';
import { Payer } from './payers.js';
import { type Latencies, type LatencyRound, type LatencyRow, writeResults } from './results.js';
import { benchProgram, openProgram, openService, temporaryFolder } from './servers.js';
import { latencyTable } from './tables.js';
import { requireWrk, runWrk } from './wrk.js';

const PARTS = { half: 0.5, '80 %': 0.8 };
const KINDS = ['first payment', 'repeat'] as const;
/** The connections are opened then. */
const UNMEASURED_SECONDS = 0.5;
/** As for the row of the rates: fewer than any cache remembers. */
const REPEATED_PAYMENTS = 5000;
const SPARE_KEYS = 1.1;

type LoadKind = LatencyRow['kind'];

export async function measureLatency(options: Options, opened: Opened, [name]: readonly string[]): Promise<void> {
  const deployment = deploymentOf(name);
  await requireWrk();
  const subjects: Subjects = {
    ours: await Subject.open(opened, deployment, options),
    ...(options.before && {
      before: await Subject.open(opened, deployment, options, resolve(options.before, 'dist/main.js')),
    }),
    bare: openClient(opened, await openProgram(opened, benchProgram('bare-fastify'))),
  };
  for (const mix of ['key', 'pay'] as const) await prepare(subjects.bare, mix, 1, options);
  const kinds = KINDS.filter((kind) => isAsked(options, kind));
  if (kinds.length === 0) throw new Error(`there is no row '${options.rows}'; there are: ${KINDS.join(', ')}`);
  const rows: LatencyRow[] = [];
  for (const kind of kinds) rows.push(...(await measureKind(kind, subjects, options)));
  const run = { kind: 'latency', deployment, rows } as const;
  console.log(latencyTable([run]));
  console.log(`Written to ${await writeResults(run)}`);
}

interface Subjects {
  readonly ours: Subject;
  readonly before?: Subject;
  /** Answers the same to whatever it is asked. */
  readonly bare: OpenLoopClient;
}

/** A service with its stores, and its clients: one that pays, and one that knows 5,000 payments and repeats them. */
class Subject {
  private constructor(
    private readonly url: string,
    private readonly payer: Payer,
    private readonly client: OpenLoopClient,
    private readonly repeater: OpenLoopClient,
    private readonly options: Options,
  ) {}

  static async open(opened: Opened, deployment: Deployment, options: Options, program?: string): Promise<Subject> {
    const service = await openService(opened, deployment, program === undefined ? {} : { program });
    const payer = new Payer('ours', service.url, await temporaryFolder(opened));
    await payer.payFresh(REPEATED_PAYMENTS);
    const [client, repeater] = [openClient(opened, service), openClient(opened, service)];
    for (const mix of ['key', 'pay'] as const) await prepare(repeater, mix, REPEATED_PAYMENTS, options);
    return new Subject(service.url, payer, client, repeater, options);
  }

  /** Requests a second that wrk gets, without a pause. */
  async capacity(kind: LoadKind): Promise<number> {
    const { seconds, connections } = this.options;
    const load = kind === 'repeat' ? this.payer.repeats() : await this.payer.firstPayments(seconds);
    const result = await runWrk(this.url, load, { seconds, connections });
    // Without it, the keys of the next run would end before its time.
    this.payer.noteRate(result);
    return result.requestsPerSecond;
  }

  async send(kind: LoadKind, rate: number): Promise<PlanResult> {
    if (kind === 'repeat') return this.repeater.run(paced('repeat', rate, this.options));
    await prepare(this.client, 'key', Math.ceil(rate * secondsOf(this.options) * SPARE_KEYS), this.options);
    return this.client.run(paced('pay', rate, this.options));
  }
}

function prepare(client: OpenLoopClient, mix: 'key' | 'pay', count: number, { connections }: Options) {
  return client.run({ mix: [mix], count, connections });
}

function paced(mix: 'pay' | 'repeat', rate: number, options: Options) {
  const { connections } = options;
  return { mix: [mix], rate, connections, seconds: secondsOf(options), unmeasuredSeconds: UNMEASURED_SECONDS };
}

const secondsOf = ({ seconds }: Options) => seconds + UNMEASURED_SECONDS;

/** The rates in turn, so that whatever drifts meets all of them. */
async function measureKind(kind: LoadKind, subjects: Subjects, options: Options): Promise<LatencyRow[]> {
  const { ours, before, bare } = subjects;
  const rows = Object.keys(PARTS).map((part): LatencyRow => {
    const measuredAt = new Date().toISOString();
    return { name: `${kind}, ${part}`, kind, part, seconds: options.seconds, measuredAt, rounds: [] };
  });
  const warmUpRate = PARTS.half * (await ours.capacity(kind));
  await before?.capacity(kind);
  for (const subject of [ours, before]) await subject?.send(kind, warmUpRate);
  await bare.run(paced('repeat', warmUpRate, options));
  for (let round = 0; round < options.rounds; round += 1) {
    for (const [index, [part, share]] of Object.entries(PARTS).entries()) {
      process.stderr.write(`${kind}, ${part}\n`);
      rows[index]?.rounds.push(await measureRound(kind, share, subjects, { ...options, isBackwards: round % 2 === 1 }));
    }
  }
  return rows;
}

async function measureRound(
  kind: LoadKind,
  share: number,
  { ours, before, bare }: Subjects,
  options: Options & { isBackwards: boolean },
): Promise<LatencyRound> {
  const rate = share * (await ours.capacity(kind));
  // Both must have the same garbage to collect.
  await before?.capacity(kind);
  const send = async (subject: Subject) => latenciesOf(await subject.send(kind, rate));
  // In turns: neither is always first.
  const earlier = before && !options.isBackwards ? await send(before) : undefined;
  const now = await send(ours);
  const later = before && options.isBackwards ? await send(before) : undefined;
  const { p99Ms: bareP99Ms } = await bare.run(paced('repeat', rate, options));
  const ofBefore = earlier ?? later;
  return { rate, ours: now, ...(ofBefore && { before: ofBefore }), bareP99Ms };
}

function latenciesOf({ answers, lost, p50Ms, p99Ms, p999Ms }: PlanResult): Latencies {
  const others = Object.keys(answers).filter((answer) => !answer.endsWith(' 200'));
  assert.deepEqual(others, [], 'not every answer was 200');
  assert.equal(lost, 0, 'a request had no answer');
  return { p50Ms, p99Ms, p999Ms };
}
