import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import type { NamedBy } from '#idempay/http/errors/catalogue.js';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { expectChargedOnce } from '../checkers/charges.js';
import { expectError } from '../client/error-body.js';
import type { Answer } from '../client/http-client.js';
import { expectFirst, expectReplay } from '../client/payment-answers.js';
import { Payer } from '../client/processor-payer.js';
import {
  type Behaviour,
  lookUpCharge,
  type ProcessorInProcess,
  serveReferenceProcessor,
  startReferenceProcessor,
} from '../processes/reference-processor.js';
import { until } from '../time/until.js';
import type { Deployment, Stores } from './deployments.js';

/** Longer than a busy machine takes for a charge that nothing delays, and short enough to be waited for. */
export const TIMEOUT_MS = 1_000;
export const LEASE_MS = 2_000;
export const REACHED_DEADLINE_MS = 10_000;
export const ENDLESS_MS = 600_000;
export const SENT_ONCE = { PROCESSOR_DEDUP_SECONDS: '0' };

const USUAL_SETTINGS = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`, PROCESSOR_TIMEOUT_MS: `${TIMEOUT_MS}` };

interface Running {
  readonly url: string;
  stop(): Promise<unknown>;
  readonly ended?: Promise<unknown>;
  signal?(name: NodeJS.Signals): void;
}

export function setProcessorEnvironment(deployment: Deployment) {
  return setEnvironment(deployment, (stores, settings) => stores.serve(settings), serveReferenceProcessor);
}

/** Each service and the processor a process of its own, for tests that kill or signal them. */
export function setProcessorProcesses(deployment: Deployment) {
  return setEnvironment(deployment, (stores, settings) => stores.start(settings), startReferenceProcessor);
}

/** A reference processor, the stores of a deployment, and services on both: shared by the tests of a suite. */
function setEnvironment<S extends Running, P extends ProcessorInProcess & { resume?(): void }>(
  deployment: Deployment,
  start: (stores: Stores, settings: Record<string, string>) => Promise<S>,
  startProcessor: () => Promise<P>,
) {
  let running: { service: S; settings: string; ended: boolean }[] = [];

  async function stop(kept?: string): Promise<void> {
    for (const { service, settings, ended } of running) if (!ended && settings !== kept) await service.stop();
    running = running.filter(({ settings, ended }) => !ended && settings === kept);
  }

  async function serveSome(count: number, more: Record<string, string>): Promise<S[]> {
    const settings = JSON.stringify(more);
    await stop(settings);
    while (running.length < count) {
      const { stores, processor } = environment;
      const service = await start(stores, { PROCESSOR_URL: processor.url, ...USUAL_SETTINGS, ...more });
      const entry = { service, settings, ended: false };
      running.push(entry);
      service.ended?.then(() => {
        entry.ended = true;
      });
    }
    return running.map(({ service }) => service);
  }

  const environment = {
    processor: undefined as unknown as P,
    stores: undefined as unknown as Stores,
    payer: new Payer(),

    /** A service with these settings: the one that runs if it has exactly them, else the others end and one is started. */
    async serve(settings: Record<string, string> = {}): Promise<S> {
      return (await serveSome(1, settings))[0] as S;
    },

    /** Two services, if the deployment takes two; else the one service twice. */
    async serveTwo(settings: Record<string, string> = {}): Promise<[S, S]> {
      const [one, other = one] = await serveSome(deployment.name === 'embedded' ? 1 : 2, settings);
      return [one as S, other as S];
    },

    stop: () => stop(),

    /** A fresh key whose first payment met this behaviour of the processor, and whose outcome is unknown. */
    async givenUnknown(url: string, behaviour: Partial<Behaviour>): Promise<string> {
      const { payer, processor } = environment;
      const key = await payer.newKey(url);
      await processor.behave(behaviour);
      expectUnknown(await payer.pay(url, key));
      await processor.behave(USUAL_BEHAVIOUR);
      return key;
    },

    /** A repeat is answered with the outcome, and the next one, at `then`, with the same. */
    async expectRepeatPays(url: string, key: string, then = url): Promise<void> {
      const id = expectPaid(await environment.payer.repeat(url, key));
      expectReplay(await environment.payer.pay(then, key), id);
    },

    /** Compares the payments of this test with the processor's log; it must be the last thing that a test does. */
    async check(unresolved: readonly string[] = []): Promise<void> {
      const url = running.find(({ ended }) => !ended)?.service.url ?? '';
      const { processor, payer } = environment;
      await expectChargedOnce(processor, payer, url, LEASE_MS, unresolved);
    },
  };

  beforeAll(async () => {
    const [processor, stores] = await Promise.all([startProcessor(), deployment.open()]);
    Object.assign(environment, { processor, stores });
  });
  // A test that failed may have left any state behind.
  beforeEach(async () => {
    const { processor } = environment;
    environment.payer = new Payer();
    for (const { service } of running) service.signal?.('SIGCONT');
    processor.resume?.();
    await processor.behave(USUAL_BEHAVIOUR).catch(() => processor.restart(USUAL_BEHAVIOUR));
  });
  afterAll(async () => {
    await environment.processor?.close();
    await environment.stores?.close();
  });
  return environment;
}

/** The processor has the charge in its hands, and it is not logged yet. */
export function untilAtWork({ url }: ProcessorInProcess, key: string): Promise<unknown> {
  const isAtWork = async () => (await lookUpCharge(url, key)).status === 409;
  return until('the processor to be at work on the charge', REACHED_DEADLINE_MS, isAtWork);
}

/** The charge is in the log: from here on the money has moved. */
export function untilCharged(processor: ProcessorInProcess, key: string): Promise<unknown> {
  const isCharged = async () => (await processor.chargesOf(key)).length > 0;
  return until('the charge to be in the log', REACHED_DEADLINE_MS, isCharged);
}

/** Rule P11: the outcome is not known, and the answer does not say that the payment failed. */
export function expectUnknown(answer: Answer, by: NamedBy = 'key'): void {
  const again = by === 'key' ? 'retry with the same Idempotency-Key' : 'repeat the same request';
  expectError(answer, 504, `The outcome of the payment is not known yet: ${again}.`);
}

/** Rule P15: the charge surely never left the service, the payment is under way, and it will be charged. */
export function expectNotSent(answer: Answer): void {
  const notSent = /nothing was charged yet\. The payment is under way and will be charged: repeat it with the same/;
  expectError(answer, 503, notSent);
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
}

/** Expects a completed payment, whether this request settled it or recovery did. Returns the transaction id. */
export function expectPaid(answer: Answer): string {
  return answer.headers['idempotent-replayed'] === undefined ? expectFirst(answer) : expectReplay(answer);
}
