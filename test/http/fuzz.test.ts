import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SCOPES } from '#idempay/access/scopes.js';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { DEPLOYMENTS, type Stores } from '../../testkit/deployments/deployments.js';
import { DescribedService } from '../../testkit/description/described-service.js';
import { type FuzzReport, fuzz } from '../../testkit/description/fuzz.js';
import type { Credentials } from '../../testkit/description/request-fuzzer.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/**
 * Good and broken requests for every operation of the description, as a service serves it: each answer is one that is described, and
 * the service goes on to answer. `FUZZ_REQUESTS=50000 FUZZ_SEED=N npx vitest run test/http/fuzz` sends this number on each deployment.
 */
const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 2_000);
/** Every push sends the same requests, so that it is refused for its own change only. The long tests send fresh ones. */
const USUAL_SEED = process.env.FUZZ_REQUESTS === undefined ? 2_119_832_827 : undefined;

/** The description does not depend on the store: a push asks one deployment, and the long tests ask both. */
const ASKED = DEPLOYMENTS.slice(0, process.env.FUZZ_REQUESTS === undefined ? 1 : DEPLOYMENTS.length);

const everything = credentialOf('everything', SCOPES);
const others = SCOPES.map((scope) => credentialOf(`only-${scope.replaceAll(':', '-')}`, [scope]));
const KEY_FILE = keyFileOf(everything, ...others);
const CHECKED: Credentials = {
  whole: everything.headers,
  others: [
    ...others.map(({ headers }) => headers),
    { Authorization: `Bearer idem_${'A'.repeat(43)}` },
    { Authorization: 'Basic c2hvcDpzaG9w' },
    {},
  ],
};
const UNCHECKED: Credentials = { whole: {}, others: [] };
/** Nothing is down, so that what the service cannot do is what HTTP/1.1 does not have. */
const NEVER_DONE = [501, 505];

interface Phase {
  readonly name: string;
  /** The share of all requests that this phase sends, from 0 to 1. */
  readonly share: number;
  readonly settings: Readonly<Record<string, string>>;
  readonly credentials: Credentials;
  /** Statuses from 500 that may come; each must have a text that is described. */
  readonly refusals: readonly number[];
}

const PHASES: readonly Phase[] = [
  {
    name: 'with credentials',
    share: 0.5,
    settings: { AUTH: 'required', RATE_LIMIT_PER_MINUTE: '1000000' },
    credentials: CHECKED,
    refusals: NEVER_DONE,
  },
  {
    name: 'with a processor that declines, fails and loses replies',
    share: 0.3,
    settings: { PAYLOAD_MISMATCH: 'reject' },
    credentials: UNCHECKED,
    refusals: [...NEVER_DONE, 503, 504],
  },
  {
    name: 'beyond the limits',
    share: 0.2,
    settings: { AUTH: 'required', RATE_LIMIT_PER_MINUTE: '60' },
    credentials: CHECKED,
    refusals: [...NEVER_DONE, 503],
  },
];

describe.each(ASKED)('every answer is described ($name)', (deployment) => {
  test(`to ${REQUESTS} good and broken requests`, WITHOUT_LIMIT, async () => {
    const seed = seedFrom('FUZZ_SEED', USUAL_SEED);
    const folder = await mkdtemp(join(tmpdir(), 'idempay-fuzz-'));
    const keyFile = join(folder, 'keys.json');
    await writeFile(keyFile, KEY_FILE);
    const behaviour = { latencyMs: 2, declineRate: 0.2, failRate: 0.1, lostReplyRate: 0.1 };
    const processor = await serveReferenceProcessor({ behaviour });
    const reports: FuzzReport[] = [];
    try {
      for (const phase of PHASES) {
        const environment: Record<string, string> = { ...phase.settings };
        if (environment.AUTH) environment.API_KEYS_FILE = keyFile;
        else environment.PROCESSOR_URL = processor.url;
        // A store takes simulated payments or others, and never both.
        const stores = await deployment.open();
        reports.push(await runPhase(stores, phase, environment, seed).finally(() => stores.close()));
      }
    } finally {
      await processor.close();
      await rm(folder, { recursive: true });
    }
    for (const { summary } of reports) console.log(summary);
    const unseen = inAll(reports.map(({ unseen }) => unseen));
    // Most of them need a store that is down. A long run says which.
    console.log(REQUESTS < 10_000 ? `${unseen.length} were never seen` : `never seen:\n${unseen.join('\n')}`);
    expect(reports.flatMap(({ problems }) => problems)).toEqual([]);
    // A run says nothing of an operation that it left out.
    expect(inAll(reports.map(({ unasked }) => unasked))).toEqual([]);
    expect(reports.flatMap(({ refused }) => refused)).toEqual([]);
  });
});

/** The entries that every list has. */
function inAll([first = [], ...others]: readonly (readonly string[])[]): readonly string[] {
  return first.filter((each) => others.every((list) => list.includes(each)));
}

async function runPhase(
  stores: Stores,
  { name, share, credentials, refusals }: Phase,
  environment: Record<string, string>,
  seed: number,
): Promise<FuzzReport> {
  const service = await stores.start(environment);
  const described = await DescribedService.at(service.url);
  const report = await fuzz(described, service, {
    name,
    requests: Math.ceil(REQUESTS * share),
    credentials,
    refusals,
    random: seededRandom(seed),
  });
  expect((await ask(`${service.url}/livez`)).status).toBe(200);
  if (!environment.AUTH) {
    const { status } = await pay(service.url, await generateKey(service.url));
    expect([200, 402, 503, 504]).toContain(status);
  }
  expect(service.logs.filter(({ msg }) => msg === 'request failed')).toEqual([]);
  expect(await service.stop()).toMatchObject({ code: 0 });
  return report;
}
