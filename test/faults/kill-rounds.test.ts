import { afterEach, beforeEach, expect, it } from 'vitest';
import { allPayments, exportedPayments, judgeLedger } from '../../testkit/checkers/charge-ledger.js';
import { KillClients } from '../../testkit/client/kill-clients.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { type KeyEntry, KillJournal } from '../../testkit/history/kill-journal.js';
import { BLOWS, blows, someBehaviour, strike, type Targets } from '../../testkit/processes/kill-faults.js';
import { killableService } from '../../testkit/processes/killable-service.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';

const ROUNDS = Number(process.env.KILL_ROUNDS || 10);
const CLIENTS = 16;
const LEASE_SECONDS = 2;
const TIMEOUT_MS = 700;
/** A blow comes this long after everything is up, at most: the first requests of a new process included. */
const LONGEST_LOAD_MS = 500;
/** Several leases, back-offs and rounds of recovery on a busy machine: what has no outcome then is stuck. */
const OUTCOME_DEADLINE_MS = 60_000;
/** Outcomes that each process is asked for once more at the end; all are held against the charges. */
const REPEATED = 1_000;
const ROUND_TIMEOUT_MS = 20_000;

const HEALED = { latencyMs: 0, replyLatencyMs: 0, declineRate: 0, failRate: 0, lostReplyRate: 0 };

describeDeployments('services and a processor killed under load', (deployment) => {
  const processes = deployment.name === 'embedded' ? 1 : 2;
  let random: Random;
  let stores: Stores;
  let processor: ReferenceProcessor;

  beforeEach(async () => {
    random = seededRandom(seedFrom('KILL_SEED'));
    [stores, processor] = await Promise.all([deployment.open(), startReferenceProcessor()]);
  });
  afterEach(async () => {
    await stores?.close();
    await processor?.close();
  });

  it(
    `charge every key once, as its clients were told, through ${ROUNDS} rounds`,
    async () => {
      const startedAt = Date.now();
      const journal = new KillJournal();
      const targets = await startTargets(journal);
      const clients = new KillClients(targets.services, journal, random.fork());
      const happened = Object.fromEntries(BLOWS.map((blow) => [blow, 0])) as Record<(typeof BLOWS)[number], number>;
      let kills = 0;
      let inFlight = 0;

      const stop = new AbortController();
      const load = clients.run(CLIENTS, stop.signal);
      const order = blows(random);
      for (let round = 1; round <= ROUNDS; round += 1) {
        await processor.behave(someBehaviour(random, TIMEOUT_MS));
        await pause(random.below(LONGEST_LOAD_MS));
        const blow = order.next().value;
        happened[blow] += 1;
        inFlight += journal.inFlight();
        kills += await strike(blow, targets, random);
        journal.expectNoViolations(`after round ${round}, in which ${blow}`);
      }
      // Once more everything ends, and the clients go away with it; then nothing is in anybody's way any more.
      stop.abort();
      await strike('all services and the processor are killed', targets, random);
      await processor.behave(HEALED);
      await load;

      const withoutOutcome = journal.withoutOutcome().length;
      const finishing = performance.now();
      await clients.finish(OUTCOME_DEADLINE_MS);
      const finishedInMs = Math.round(performance.now() - finishing);
      await clients.repeat(someOf([...journal.entries.values()]));
      clients.close();
      journal.expectNoViolations('in the answers');

      const charges = await processor.charges();
      const figures = {
        kills,
        inFlight,
        ...journal.figures(),
        withoutOutcome,
        finishedInMs,
        takenOver: 0,
        attempts: 0,
      };
      for (const { url } of targets.services) {
        const [payments, exported] = [await allPayments(url), await exportedPayments(url, startedAt, Date.now())];
        const differences = judgeLedger({ charges, payments, exported, entries: journal.entries });
        expect(differences.slice(0, 20), `${differences.length} differences, the first of them`).toEqual([]);
        figures.takenOver = payments.filter(({ attempts }) => attempts > 1).length;
        figures.attempts = Math.max(...payments.map(({ attempts }) => attempts));
      }
      const minutes = ((Date.now() - startedAt) / 60_000).toFixed(1);
      console.log(`${deployment.name}, ${ROUNDS} rounds in ${minutes} min:`, figures, happened);

      // Else the kills never hit anything, and the test has shown nothing.
      const { declined, cut, unknown, takenOver } = figures;
      for (const [what, count] of Object.entries({ kills, declined, cut, unknown, takenOver })) {
        expect(count, what).toBeGreaterThan(0);
      }
    },
    60_000 + OUTCOME_DEADLINE_MS + ROUNDS * ROUND_TIMEOUT_MS,
  );

  async function startTargets(journal: KillJournal): Promise<Targets> {
    const settings = {
      PROCESSOR_URL: processor.url,
      PROCESSOR_TIMEOUT_MS: `${TIMEOUT_MS}`,
      LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
    };
    const onOwnEnd = (sentence: string) => journal.violations.push(sentence);
    const none = Array.from({ length: processes });
    const services = await Promise.all(none.map(() => killableService(stores, settings, onOwnEnd)));
    for (const service of services) await service.start();
    return {
      services,
      processor,
      beyondLeaseMs: LEASE_SECONDS * 1_000 + 300,
      beyondTimeoutMs: TIMEOUT_MS + 200,
    };
  }

  function someOf(entries: readonly KeyEntry[]): readonly KeyEntry[] {
    if (entries.length <= REPEATED) return entries;
    return Array.from({ length: REPEATED }, () => random.pick(entries));
  }
});
