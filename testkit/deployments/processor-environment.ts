import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { judgeCharges } from '../checkers/charges.js';
import { expectError } from '../client/error-body.js';
import { type Answer, ask } from '../client/http-client.js';
import { expectFirst, expectReplay } from '../client/payment-answers.js';
import { Payer } from '../client/processor-payer.js';
import { lookUpCharge, type ReferenceProcessor, startReferenceProcessor } from '../processes/reference-processor.js';
import type { Service } from '../processes/service.js';
import { until } from '../time/until.js';
import type { Deployment, Stores } from './deployments.js';

/** Longer than a busy machine takes for a charge that nothing delays, and short enough to be waited for. */
export const TIMEOUT_MS = 1_000;
/** So short that it dies within a test. */
export const LEASE_MS = 2_000;
export const REACHED_DEADLINE_MS = 10_000;

export const UNKNOWN_OUTCOME = 'The outcome of the payment is not known yet: retry with the same Idempotency-Key.';

/** A reference processor, the stores of a deployment, and the service on both: shared by the tests of a suite. */
export interface ProcessorScene {
  readonly processor: ReferenceProcessor;
  readonly stores: Stores;
  /** Another one for each test. */
  readonly payer: Payer;
  /** A process with these settings: the one that runs if it has exactly them, else the others end and one is started. */
  serve(settings?: Record<string, string>): Promise<Service>;
  /** Two processes, where the deployment takes two; else the one process twice. */
  serveTwo(settings?: Record<string, string>): Promise<[Service, Service]>;
  /** The payments of this test before the processor's log; it must be the last thing that a test does. */
  judge(unresolved?: readonly string[]): Promise<void>;
}

export function setProcessorScene(deployment: Deployment): ProcessorScene {
  let processor: ReferenceProcessor | undefined;
  let stores: Stores | undefined;
  let payer = new Payer();
  let serving: { service: Service; settings: string; ended: boolean }[] = [];

  beforeAll(async () => {
    [processor, stores] = await Promise.all([startReferenceProcessor(), deployment.open()]);
  });
  // Whatever state a test that failed has left behind.
  beforeEach(async () => {
    payer = new Payer();
    for (const { service } of serving) service.signal('SIGCONT');
    processor?.resume();
    await processor?.behave(USUAL_BEHAVIOUR).catch(() => processor?.restart(USUAL_BEHAVIOUR));
  });
  afterAll(async () => {
    await stores?.close();
    await processor?.close();
  });

  async function start(settings: Record<string, string>, environment: Record<string, string>): Promise<Service> {
    const service = await present(stores).start(environment);
    const entry = { service, settings: JSON.stringify(settings), ended: false };
    serving.push(entry);
    service.ended.then(() => {
      entry.ended = true;
    });
    return service;
  }

  async function serveSome(count: number, settings: Record<string, string>): Promise<Service[]> {
    const wanted = JSON.stringify(settings);
    for (const { service, ended, ...other } of serving) if (!ended && other.settings !== wanted) await service.stop();
    serving = serving.filter(({ ended }) => !ended);
    const usual = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`, PROCESSOR_TIMEOUT_MS: `${TIMEOUT_MS}` };
    const environment = { PROCESSOR_URL: present(processor).url, ...usual, ...settings };
    while (serving.length < count) await start(settings, environment);
    return serving.map(({ service }) => service);
  }

  return {
    get processor() {
      return present(processor);
    },
    get stores() {
      return present(stores);
    },
    get payer() {
      return payer;
    },
    async serve(settings = {}) {
      const [service] = await serveSome(1, settings);
      return present(service);
    },
    async serveTwo(settings = {}) {
      const [one, other] = await serveSome(deployment.name === 'embedded' ? 1 : 2, settings);
      return [present(one), other ?? present(one)];
    },
    async judge(unresolved = []) {
      const running = serving.find(({ ended }) => !ended);
      const { url } = present(running).service;
      await judgeCharges({ processor: present(processor), payments: payer.payments, url, unresolved });
    },
  };
}

/** The processor has the charge in its hands, and it is not logged yet. */
export function untilAtWork(processor: ReferenceProcessor, key: string): Promise<unknown> {
  return until('the processor to be at work on the charge', REACHED_DEADLINE_MS, async () => {
    return (await lookUpCharge(processor.url, key)).status === 409;
  });
}

/** The charge is in the log: from here on the money has moved. */
export function untilCharged(processor: ReferenceProcessor, key: string): Promise<unknown> {
  return until('the charge to be in the log', REACHED_DEADLINE_MS, async () => {
    return (await processor.chargesOf(key)).length > 0;
  });
}

/** Decisions P11: the outcome is not known, and nobody says failed. */
export function expectUnknown(answer: Answer): void {
  expectError(answer, 504, UNKNOWN_OUTCOME);
}

/** Decisions P15: the charge surely never left the service, the payment is under way, and it will be charged. */
export function expectNotSent(answer: Answer): void {
  expectError(
    answer,
    503,
    /nothing was charged yet\. The payment is under way and will be charged: repeat it with the same/,
  );
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
}

/** Where recovery may have been faster than the repeat: the outcome, by whoever wrote it. Returns the transaction id. */
export function expectPaid(answer: Answer): string {
  return answer.headers['idempotent-replayed'] === undefined ? expectFirst(answer) : expectReplay(answer);
}

/** `POST /api/payments/{key}/resolution`. */
export function resolvePayment(url: string, key: string, outcome: string, reason: string): Promise<Answer> {
  return ask(`${url}/api/payments/${key}/resolution`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ outcome, reason }),
  });
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the scene is not set yet: read it in hooks and tests');
  return value;
}
