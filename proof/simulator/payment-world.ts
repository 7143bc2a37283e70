import { StoreUnavailable } from '#idempay/errors.js';
import { backOffMs } from '#idempay/payments/attempt.js';
import { createPaymentArea, type PaymentArea } from '#idempay/payments/payment-area.js';
import type { PaymentHistory } from '#idempay/payments/payment-history.js';
import type { PayAnswer } from '#idempay/payments/payments.js';
import { createInstanceClock, type InstanceClock } from './instance.js';
import { createSimulatedKeyStore, KeyServerState } from './key-store.js';
import { createSimulatedLedger, LedgerState } from './ledger.js';
import { FINE, Server, type Weather } from './network.js';
import { type KeyScript, type PaymentPlan, type PlannedRequest, TROUBLED_MS, type Trouble } from './payment-plan.js';
import { createSimulatedRemoteProcessor, ProcessorState } from './processor.js';
import { type Actor, Simulation } from './simulation.js';

const PROCESSOR = 'the-processor';
/** As the adapters have it: a command, and a statement with its client's patience. */
const KEY_STORE_DEADLINE_MS = 900;
const LEDGER_DEADLINE_MS = 6_000;
/** A call is late by six of its sender's time-outs at most; a processor's promise must hold that much longer. */
const LATEST_ARRIVAL_TIMEOUTS = 6;
/** From the end of the trouble: the longest lease, the longest back-off, some rounds of recovery, and the last answers. */
const QUIET_MS = 200_000;
const ASK_AGAIN_EVERY_MS = 5_000;

/** What a client knows of one request. */
export interface Asked {
  readonly key: string;
  readonly amount: string;
  readonly sentAt: number;
  /** The row that there was when it was sent: its key is no longer a key that nobody knows. */
  readonly knownAtSend: boolean;
  answeredAt: number | undefined;
  /** 'cut': no answer. 'refused': 503. */
  answer: PayAnswer | 'cut' | 'refused' | undefined;
}

/** What is known of one key when all is over. */
export interface Issued {
  readonly key: string;
  readonly script: KeyScript;
  readonly issuedAt: number;
  readonly asked: Asked[];
}

export interface PaymentHistoryOfSeed {
  readonly plan: PaymentPlan;
  readonly issued: readonly Issued[];
  readonly ledger: LedgerState;
  readonly keyServer: KeyServerState;
  readonly processor: ProcessorState;
  readonly simulation: Simulation;
  /** When the key store forgot something, or a clock that judges expiry was moved. */
  readonly forgot: readonly number[];
  /** Exceptions that are no fault of a store: bugs. */
  readonly bugs: readonly string[];
}

interface Instance {
  actor: Actor;
  clock: InstanceClock;
  area: PaymentArea;
  open: Set<() => void>;
}

/** Carries out a plan: the real payment code of several instances, over stores and a processor that misbehave. */
export async function runPayments(plan: PaymentPlan, options: { trace?: boolean } = {}): Promise<PaymentHistoryOfSeed> {
  const simulation = new Simulation(plan.seed, options);
  const { random } = simulation;
  const { shape } = plan;
  const embedded = shape.deployment === 'embedded';

  const keyServer = new KeyServerState(simulation);
  const ledger = new LedgerState(simulation);
  const promisedMs = shape.dedupMs === 0 ? 0 : shape.dedupMs + (LATEST_ARRIVAL_TIMEOUTS + 1) * shape.processorTimeoutMs;
  const processor = new ProcessorState(simulation, promisedMs, random.fork());
  const keyStoreLine = new Server(simulation, 'the key store', KEY_STORE_DEADLINE_MS, random.fork(), true);
  const ledgerLine = new Server(simulation, 'the ledger', LEDGER_DEADLINE_MS, random.fork());
  const usual = { ...processor.behaviour };

  const clients: Actor = { name: 'client', alive: true, pausedUntil: 0 };
  const issued: Issued[] = [];
  const forgot: number[] = [];
  const bugs: string[] = [];
  const instances: Instance[] = [];
  let born = 0;
  let keys = 0;
  let ids = 0;
  let troubled = true;

  function start(index: number): Instance {
    born += 1;
    const actor: Actor = { name: `i${index}.${born}`, alive: true, pausedUntil: 0 };
    const clock = createInstanceClock(simulation, actor, 1_000 * born);
    if (embedded) {
      keyServer.locks.clear();
      ledger.endAllLeases();
    }
    let owners = 0;
    const area = createPaymentArea({
      keys: createSimulatedKeyStore(simulation, keyStoreLine, keyServer, actor, clock),
      ledger: createSimulatedLedger(simulation, ledgerLine, ledger, actor, clock),
      history: NO_HISTORY,
      processor: createSimulatedRemoteProcessor(
        simulation,
        processor,
        actor,
        { name: PROCESSOR, timeoutMs: shape.processorTimeoutMs, dedupMs: shape.dedupMs },
        random.fork(),
      ),
      rules: {
        idempotencyTtlMs: shape.idempotencyTtlMs,
        lockTtlMs: shape.leaseMs,
        payloadMismatch: shape.payloadMismatch,
        resolvableAfterMs: shape.dedupMs,
      },
      recoverAfterMs: backOffMs,
      clock,
      newKey: () => `k${++keys}`,
      newTransactionId: () => `TXN${++ids}`,
      newOwner: () => `${actor.name}:${++owners}`,
      events: {
        fault: (fault) => void (fault instanceof StoreUnavailable || bugs.push(String(fault))),
        unknown: ({ key }, cause) => simulation.note(`${actor.name}: ${key} stays unknown: ${cause}`),
        overdue: (count) => simulation.note(`${actor.name}: ${count} wait for an operator`),
      },
    });
    void area.recovery.start(0);
    return { actor, clock, area, open: new Set() };
  }

  /** One request of a client over the network; `give` hears the answer, 'cut' or 'refused'. */
  function call<T>(
    index: number,
    what: string,
    work: (instance: Instance) => Promise<T>,
    give: (answer: T | 'cut' | 'refused') => void,
  ): void {
    let open = true;
    const answer = (value: T | 'cut' | 'refused') => {
      if (!open) return;
      open = false;
      simulation.after(1 + random.fraction() * 10, '', clients, () => give(value));
    };
    simulation.after(1 + random.fraction() * 10, '', undefined, () => {
      const instance = instances[index] as Instance;
      const cut = () => answer('cut');
      if (!instance.actor.alive) return cut();
      instance.open.add(cut);
      simulation.after(0, `${instance.actor.name} is asked to ${what}`, instance.actor, () => {
        work(instance)
          .then(answer, (fault: unknown) => {
            if (!(fault instanceof StoreUnavailable)) bugs.push(`${what}: ${fault}`);
            answer('refused');
          })
          .finally(() => instance.open.delete(cut));
      });
    });
  }

  function pay(known: Issued, request: PlannedRequest, instance: number, repeats: number): void {
    const amount = request.otherAmount ?? known.script.amount;
    const asked: Asked = {
      key: known.key,
      amount,
      sentAt: simulation.time,
      knownAtSend: ledger.find(known.key).state !== 'absent',
      answeredAt: undefined,
      answer: undefined,
    };
    known.asked.push(asked);
    const patience =
      request.patienceMs > 0 ? { ms: request.patienceMs, gone: new AbortController().signal } : undefined;
    call(
      instance,
      `pay ${amount} with ${known.key}`,
      ({ area }) => area.payments.pay(known.key, { amount, currency: 'EUR' }, patience),
      (answer) => {
        asked.answer = answer;
        asked.answeredAt = simulation.time;
        simulation.note(`client hears of ${known.key}: ${describe(answer)}`);
        if (isFinal(answer)) return;
        if (repeats > 0 && troubled) {
          const next = random.below(shape.instances);
          simulation.after(random.below(3_000), '', clients, () => pay(known, request, next, repeats - 1));
        }
      },
    );
  }

  function begin(script: KeyScript): void {
    call(
      script.instance,
      'issue a key',
      ({ area }) => area.payments.issueKey(),
      (key) => {
        if (key === 'cut' || key === 'refused') return;
        const known: Issued = { key, script, issuedAt: simulation.time, asked: [] };
        issued.push(known);
        for (const request of script.requests) {
          simulation.after(request.afterMs, '', clients, () => pay(known, request, request.instance, request.repeats));
        }
      },
    );
  }

  function crash(index: number, forMs: number): void {
    const instance = instances[index] as Instance;
    if (!instance.actor.alive) return;
    instance.actor.alive = false;
    for (const cut of instance.open) cut();
    simulation.after(forMs, '', undefined, () => {
      instances[index] = start(index);
      simulation.note(`i${index} starts`);
    });
  }

  function carryOut(trouble: Trouble): void {
    switch (trouble.kind) {
      case 'crash':
        return crash(trouble.instance, trouble.forMs);
      case 'pause': {
        const { actor } = instances[trouble.instance] as Instance;
        actor.pausedUntil = Math.max(actor.pausedUntil, simulation.time + trouble.forMs);
        return;
      }
      case 'forget everything':
        forgot.push(simulation.time);
        keyServer.records.clear();
        keyServer.locks.clear();
        return;
      case 'forget the last writes': {
        const restore = keyServer.snapshot();
        simulation.after(trouble.forMs, 'the key store is as it was before', undefined, () => {
          forgot.push(simulation.time - trouble.forMs, simulation.time);
          restore();
        });
        return;
      }
      case 'weather': {
        const line = trouble.server === 'key store' ? keyStoreLine : ledgerLine;
        const weather: Weather = embedded ? { ...FINE, down: true } : trouble.weather;
        line.weather = weather;
        simulation.after(trouble.forMs, `${trouble.server}: fine again`, undefined, () => {
          if (line.weather === weather) line.weather = { ...FINE };
        });
        return;
      }
      case 'processor':
        Object.assign(processor.behaviour, trouble.behaviour);
        simulation.after(trouble.forMs, 'the processor is fine again', undefined, () =>
          Object.assign(processor.behaviour, usual),
        );
        return;
      case 'clock':
        if (trouble.of === 'key store') keyServer.clockAheadMs += trouble.aheadMs;
        else if (trouble.of === 'ledger') ledger.clockAheadMs += trouble.aheadMs;
        else (instances[trouble.of] as Instance).clock.wallAheadMs += trouble.aheadMs;
        if (typeof trouble.of === 'string') forgot.push(simulation.time);
    }
  }

  /** Trouble has ended: everybody is up, every way is fine, and who asks again does so until the answer is final. */
  function heal(): void {
    troubled = false;
    keyStoreLine.weather = { ...FINE };
    ledgerLine.weather = { ...FINE };
    Object.assign(processor.behaviour, usual);
    for (const { actor } of instances) actor.pausedUntil = Math.min(actor.pausedUntil, simulation.time);
    for (const known of issued) if (known.script.asksAgain) askAgain(known);
  }

  function askAgain(known: Issued): void {
    if (simulation.time > TROUBLED_MS + QUIET_MS - 30_000) return;
    if (known.asked.some(({ answer }) => isFinal(answer))) return;
    const request = { afterMs: 0, instance: 0, otherAmount: undefined, patienceMs: 0, repeats: 0 };
    pay(known, request, random.below(shape.instances), 0);
    simulation.after(ASK_AGAIN_EVERY_MS, '', clients, () => askAgain(known));
  }

  for (let index = 0; index < shape.instances; index += 1) instances.push(start(index));
  for (const script of plan.scripts) simulation.after(script.at, '', clients, () => begin(script));
  for (const trouble of plan.troubles) {
    simulation.after(trouble.at, describeTrouble(trouble), undefined, () => carryOut(trouble));
  }
  simulation.after(TROUBLED_MS, 'the trouble ends', undefined, heal);
  await simulation.run(TROUBLED_MS + QUIET_MS);
  for (const { actor } of instances) actor.alive = false;
  return { plan, issued, ledger, keyServer, processor, simulation, forgot, bugs };
}

export function isFinal(answer: Asked['answer']): boolean {
  if (answer === undefined || answer === 'cut' || answer === 'refused') return false;
  return ['processed', 'replayed', 'invalid key', 'mismatch'].includes(answer.state);
}

export function describe(answer: Asked['answer']): string {
  if (answer === undefined || typeof answer === 'string') return answer ?? 'nothing';
  if (answer.state !== 'processed' && answer.state !== 'replayed') return answer.state;
  const { outcome } = answer.final;
  return `${answer.state} ${outcome.state === 'COMPLETED' ? outcome.transactionId : `declined (${outcome.reason})`}`;
}

function describeTrouble(trouble: Trouble): string {
  const { at: _, kind, ...rest } = trouble;
  return `TROUBLE ${kind} ${JSON.stringify(rest)}`;
}

/** Nobody looks at payments here but the judge, who sees the rows themselves. */
const NO_HISTORY: PaymentHistory = {
  find: async () => undefined,
  newest: async () => [],
  settled: async () => ({ payments: [], next: undefined }),
};
