import type { PaymentArea } from '#idempay/payments/payments.js';
import type { Clock } from '#idempay/platform/clock.js';
import { decorated } from '#idempay/platform/decorated.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import type { Message } from '#idempay/webhooks/message.js';
import type { EndpointRows } from '#idempay/webhooks/ports/endpoint-rows.js';
import type { Receivers, SendResult } from '#idempay/webhooks/receivers.js';
import { createWebhooks, type Webhooks } from '#idempay/webhooks/webhooks.js';
import type { Process } from '../simulation.js';
import type { SimulatedPorts } from '../stores.js';
import type { World } from '../world.js';
import { nameOf } from './keys.js';

/** As `receivers.ts` of the service has it: nothing that comes later is an answer. */
const TIMEOUT_MS = 15_000;
const TRANSIT_MS = 20;
const USUAL_ANSWER_MS = 100;
const LATEST_ANSWER_MS = 30_000;

export interface PlannedEndpoint {
  readonly name: string;
  readonly client: string | undefined;
  /** The part of the settlements that it refuses again and again, until long after the faults. */
  readonly refuses: number;
}

/** Chances from 0 to 1 that a message meets each of these; the first that it meets counts. */
export const KEEPS_ALL = {
  /** It answers 410. */
  gone: 0,
  /** It answers 500. */
  fails: 0,
  /** It never answers, and has kept nothing. */
  hangs: 0,
  /** It keeps the message, and the answer is lost. */
  losesReply: 0,
  /** It keeps the message, and answers late, perhaps too late. */
  late: 0,
};
export type ReceiverBehaviour = Readonly<typeof KEEPS_ALL>;

/** A message that has reached its receiver. */
interface Received extends Message {
  readonly endpoint: PlannedEndpoint;
  readonly at: number;
  readonly isKept: boolean;
}

/** Since when a settlement has to reach an endpoint. */
interface Beginning {
  /** The position with which its row was begun. */
  readonly fromUs: number;
}

/** The parts of a process that serves webhooks. */
export interface ServedWebhooks extends PaymentArea {
  readonly endpointRows: EndpointRows;
}

export type SimulatedReceivers = ReturnType<typeof createSimulatedReceivers>;

/** The receivers of webhooks: what they do with a message depends on the moment, and what they have got is kept for the checker. */
export function createSimulatedReceivers(
  { simulation, processes, stores }: World<ServedWebhooks>,
  endpoints: readonly PlannedEndpoint[],
  refusesUntil: number,
) {
  /** By the index of the endpoint. */
  const behaviours = new Map<number, ReceiverBehaviour>();
  const received: Received[] = [];
  const beginnings = new Map<string, Beginning>();
  /** Names of the keys that were ever set aside, by endpoint. */
  const everSetAside = new Map(endpoints.map(({ name }) => [name, new Set<string>()]));
  /** Settlements before this time were removed before they could be delivered, as an alarm said. */
  const skippedBelowUs = new Map<string, number>();
  const sentWithoutLease: string[] = [];
  const file = {
    current: endpoints.map(({ name, client }) => ({
      ...{ name, url: 'https://receiver.example', secrets: [] },
      ...(client !== undefined && { client }),
    })),
    close() {},
  };

  function resultOf(index: number, message: Message): SendResult | 'lost' | 'kept' {
    const endpoint = endpoints[index] as PlannedEndpoint;
    const random = simulation.rng(`${endpoint.name} gets ${nameOf(keyOf(message))}`);
    const meets = (chance: number) => random.fraction() < chance;
    const now = behaviours.get(index) ?? KEEPS_ALL;
    if (meets(now.gone)) return { state: 'gone' };
    if (meets(now.fails) || isRefused(endpoint, message)) return { state: 'refused', cause: 'it answered 500' };
    if (meets(now.hangs)) return 'lost';
    return meets(now.losesReply) ? 'kept' : { state: 'taken' };
  }

  function isRefused({ name, refuses }: PlannedEndpoint, message: Message): boolean {
    if (simulation.time >= refusesUntil) return false;
    return simulation.stream(`${name} refuses ${nameOf(keyOf(message))}`).fraction() < refuses;
  }

  function receive(index: number, message: Message, answer: (ms: number, result: SendResult) => void): void {
    const endpoint = endpoints[index] as PlannedEndpoint;
    const result = resultOf(index, message);
    const isKept = result === 'kept' || (typeof result === 'object' && result.state === 'taken');
    received.push({ ...message, endpoint, at: simulation.time, isKept });
    simulation.count(`webhooks: ${typeof result === 'object' ? result.state : result}`);
    if (typeof result !== 'object') return;
    const random = simulation.rng(`${endpoint.name} answers ${nameOf(keyOf(message))}`);
    const isLate = random.fraction() < (behaviours.get(index) ?? KEEPS_ALL).late;
    answer(TRANSIT_MS + random.fraction() * (isLate ? LATEST_ANSWER_MS : USUAL_ANSWER_MS), result);
  }

  /** With a clock that never moves and no lost rows, nobody sends while another process has the lease. */
  function noteSender(name: string, { name: sender }: Process, message: Message): void {
    const owner = stores.postgres?.tables.endpoints.get(name)?.owner ?? sender;
    if (owner.startsWith(sender)) return;
    sentWithoutLease.push(`${message.id} was sent to ${name} by ${sender} while ${owner} had the lease`);
  }

  function receiversOf(process: Process): Receivers {
    return {
      send({ name }, message) {
        noteSender(name, process, message);
        return new Promise((resolve) => {
          const giveUp = () => resolve({ state: 'refused', cause: 'no answer in time' });
          const cancelGiveUp = simulation.after(TIMEOUT_MS, process, giveUp);
          const answer = (ms: number, result: SendResult) =>
            simulation.after(ms, process, () => {
              cancelGiveUp();
              resolve(result);
            });
          const index = endpoints.findIndex((endpoint) => endpoint.name === name);
          const arrivesAfterMs = simulation.rng(`to ${name}: ${message.id}`).fraction() * TRANSIT_MS;
          const label = `${process.name} tells ${name} of ${nameOf(keyOf(message))}`;
          // It arrives although its sender has died.
          simulation.after(arrivesAfterMs, undefined, () => receive(index, message, answer), label);
        });
      },
      async close() {},
    };
  }

  /** Notes the position with which the first row was begun. It counts also after a restore has taken the row away. */
  const noted = (rows: EndpointRows): EndpointRows =>
    decorated(rows, {
      take: (next) => async (asked) => {
        const taken = await next(asked);
        if (taken.state === 'taken' && !beginnings.has(asked.name))
          beginnings.set(asked.name, { fromUs: taken.position.atUs });
        return taken;
      },
      setAside: (next) => async (lease, refused) => {
        everSetAside.get(lease.name)?.add(nameOf(refused.key));
        return next(lease, refused);
      },
    });

  const latestRemovedUs = () =>
    Math.max(...stores.payments.removed.map(({ row }) => Math.floor(Number(row.settled_at) * 1_000)), 0);

  /** The keys that are set aside for an endpoint now, by their names. */
  function setAsideNow(name: string): ReadonlySet<string> {
    const { postgres } = stores;
    const rows = postgres
      ? [...postgres.tables.setAside.values()]
      : (stores.query('SELECT endpoint, key FROM webhook_set_aside') as { endpoint: string; key: string }[]);
    return new Set(rows.filter(({ endpoint }) => endpoint === name).map(({ key }) => nameOf(key)));
  }

  /** An operator asks one of the processes; if that one cannot, the next time. */
  const operate = (work: (rows: EndpointRows) => Promise<unknown>) =>
    processes.look(simulation.rng('the operator of webhooks').below(processes.size), ({ endpointRows }) =>
      work(endpointRows),
    );

  return {
    ...{ endpoints, behaviours, received, beginnings, everSetAside, skippedBelowUs, sentWithoutLease, setAsideNow },

    /** The real webhooks of one process. */
    connect(
      process: Process,
      ports: SimulatedPorts,
      feed: PaymentArea['settlementFeed'],
      clock: Clock,
      bugs: string[],
    ) {
      let owners = 0;
      const count = (what: string) => () => simulation.count(`webhooks: ${what}`);
      const rows = noted(ports.endpointRows);
      const webhooks: Webhooks = createWebhooks(
        file,
        () => `${process.name}:w${++owners}`,
        {
          ...{ rows, feed, history: ports.paymentHistory, clock },
          random: () => simulation.rng(`the pause of ${process.name}`).fraction(),
          events: {
            fault: (fault) => void (fault instanceof StoreUnavailable || bugs.push(`webhooks: ${fault}`)),
            setAside: count('set aside'),
            standsStill: count('stand still'),
            stoppedByReceiver: count('stopped by the receiver'),
            beganEarlier: count('began earlier'),
            setAsideRemoved: count('removed after it was set aside'),
            passedByRetention(name) {
              simulation.count('webhooks: passed by retention');
              skippedBelowUs.set(name, latestRemovedUs() + 1);
            },
          },
        },
        receiversOf(process),
      );
      webhooks.start();
      return webhooks;
    },

    /** Starts what a receiver has stopped. */
    async startAll(): Promise<void> {
      for (const { name } of endpoints) await operate((rows) => rows.start(name));
    },

    /** Receivers take everything by now, and what is set aside is tried again. */
    async resendAll(): Promise<void> {
      for (const { name } of endpoints)
        if (setAsideNow(name).size > 0) await operate((rows) => rows.resend(name, undefined));
    },
  };
}

const keyOf = ({ id }: Message) => id.slice(0, id.lastIndexOf('.'));
