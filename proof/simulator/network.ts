import { StoreUnavailable } from '#idempay/platform/faults.js';
import type { Random } from '../../testkit/random.js';
import type { TriggeredFaults } from './faults.js';
import { type Line, ROUTINE } from './models/line.js';
import { nameOf } from './payments/keys.js';
import type { Process, Simulation } from './simulation.js';

/** The present state of the network between a process and a server. Chances from 0 to 1. */
export const GOOD = {
  lostRequest: 0,
  lostReply: 0,
  /** It is done twice: the second time later, as when a proxy or a driver sends it again. */
  repeated: 0,
  /** It takes too long: its caller has given up. */
  slow: 0,
  /** The server is down: nothing arrives, and the caller learns of it at once or at its deadline. */
  down: false,
  /** The server refuses it: a full disk. */
  full: false,
};
export type NetworkConditions = Readonly<typeof GOOD>;

/** `mayRepeat`: whether the adapter's operations on Redis may be done twice. */
export function networkFault(random: Random, of: number, embedded: boolean, mayRepeat: boolean, forMs: number) {
  const server = random.pick(['redis', 'postgres'] as const);
  // Within one machine no message is lost, but its disk may be full, or slow.
  const ofDisk = random.below(2) === 0 ? { ...GOOD, full: true } : { ...GOOD, slow: 0.2 };
  const some = () => random.pick([0, 0.1, 0.5]);
  const ofNetwork = () => ({
    ...{ lostRequest: some(), lostReply: some(), repeated: mayRepeat && server === 'redis' ? some() : 0 },
    ...{ slow: random.pick([0, 0.2]), down: random.below(4) === 0, full: false },
  });
  const conditions = embedded ? ofDisk : ofNetwork();
  return { kind: 'network', server, of: random.pick([of, 'all'] as const), conditions, forMs } as const;
}

const USUAL_MS = 8;
const SLOW_MS = 12_000;
const REPEATED_WITHIN_MS = 3_000;
/** Share of a server's notifications that are lost, also without a fault. */
const LOST_NOTICES = 0.2;
const NOTICED_WITHIN_MS = 20;

interface ServerSettings {
  readonly name: string;
  /** Callers give up after this; what is still on its way then may be done all the same. If omitted, they wait. */
  readonly deadlineMs?: number;
  /** True if the store is in the caller's own process: when the process ends, its unfinished work is never done. */
  readonly diesWithCaller?: boolean;
}

/** One server, and the network to it. Each operation is one step of it, at a moment that the seed decides. */
export function createLink(simulation: Simulation, triggered: TriggeredFaults, settings: ServerSettings) {
  const { name, deadlineMs, diesWithCaller } = settings;
  /** The conditions on the way from each process, because one may be cut off from what the others reach. */
  const conditions = new Map<number, NetworkConditions>();

  /** Every subject has random choices of its own, so that a history without one payment is the same for the others. */
  const rngOf = (subject: string) => simulation.rng(`${name}: ${subject}`);

  function lineOf(caller: Process): Line {
    const currently = () => conditions.get(caller.index) ?? GOOD;

    const send: Line['send'] = (operation, keys, serve) => {
      const subjects = keys.map(nameOf);
      const now = currently();
      const random = rngOf(subjects[0] ?? '');
      const isRoutine = ROUTINE.has(operation);
      const what = isRoutine ? '' : `${caller.name} ${operation} ${subjects.join(' ')}`;
      const said = (text: string) => what && `${what}: ${text}`;
      const transitMs = () => {
        if (now.slow > 0 && random.fraction() < now.slow) return random.fraction() * SLOW_MS;
        return 0.1 + random.fraction() * USUAL_MS;
      };
      // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: what may become of one message stands in the order in which it draws from the RNG, which is the history.
      return new Promise((resolve, reject) => {
        // The work that still runs of a process that died a moment ago.
        if (!caller.alive) return;
        const asked = triggered.begin(operation, subjects);
        const giveUp = () => reject(new StoreUnavailable('unknown', `${name} did not answer in time`));
        const cancelGiveUp =
          deadlineMs === undefined ? () => {} : simulation.after(deadlineMs, caller, giveUp, said('given up'));
        const arriveBack = (ms: number, give: () => void, label = '') => {
          const hear = () => {
            cancelGiveUp();
            give();
          };
          simulation.after(ms, caller, hear, label);
        };
        const refuse = (reason: unknown) => arriveBack(transitMs(), () => reject(reason), said('refused'));

        if (now.down && random.fraction() < 0.5) {
          refuse(new StoreUnavailable('unchanged', `${name} is down`));
          return;
        }
        const fault = triggered.injectAt('sent', asked, caller);
        if (fault === 'lost' || now.down || random.fraction() < now.lostRequest) {
          simulation.count('requests lost');
          simulation.note(said('lost'));
          return;
        }
        const lostReply = random.fraction() < now.lostReply;
        const reply: typeof resolve = (result) => {
          const replyFault = triggered.injectAt('done', asked, caller);
          if (replyFault === 'lost' || lostReply) {
            simulation.count('replies lost');
            simulation.note(said('its reply is lost'));
          } else arriveBack(transitMs() + (replyFault ?? 0), () => resolve(result));
        };
        const arrive = () => {
          if (now.full) refuse(new StoreUnavailable('unchanged', `${name} is full`));
          else serve(reply, refuse);
        };
        const arrivesAfterMs = transitMs() + (fault ?? 0);
        const arrivesAt = diesWithCaller ? caller : undefined;
        if (isRoutine) simulation.after(arrivesAfterMs, arrivesAt, arrive);
        else simulation.arrive(arrivesAfterMs, arrivesAt, arrive, what);
        if (random.fraction() < now.repeated) {
          const laterMs = transitMs() + random.below(REPEATED_WITHIN_MS);
          const ignore = () => {};
          simulation.count('requests repeated');
          simulation.arrive(laterMs, undefined, () => serve(ignore, ignore), said('again'));
        }
      });
    };

    return {
      caller: caller.name,
      send,
      deliver: (subject, what, hear) => {
        const random = rngOf(nameOf(subject));
        if (!caller.alive || random.fraction() < Math.max(LOST_NOTICES, currently().lostReply)) return;
        const label = `${caller.name} ${what} ${nameOf(subject)}`;
        simulation.after(1 + random.fraction() * NOTICED_WITHIN_MS, caller, hear, label);
      },
    };
  }

  /** For some processes; returns what restores those for which nothing else was set since. */
  function setConditions(processes: readonly number[], set: NetworkConditions): () => void {
    for (const index of processes) conditions.set(index, set);
    return () => {
      for (const index of processes) if (conditions.get(index) === set) conditions.delete(index);
    };
  }

  /** A message that was sent in bad conditions has arrived or is given up after this. */
  const feltForMs = Math.min(deadlineMs ?? Number.POSITIVE_INFINITY, 2 * SLOW_MS);
  return { lineOf, rngOf, setConditions, feltForMs, restore: () => conditions.clear() };
}
