import { StoreUnavailable } from '#idempay/faults.js';
import type { Random } from '../../testkit/random.js';
import type { Ambushes } from './ambushes.js';
import { type Actor, hashOf, type Simulation } from './simulation.js';

/** What the way between an instance and a server is like at the moment. Chances from 0 to 1. */
export interface Weather {
  /** The request never arrives. */
  readonly lostRequest: number;
  /** It is done, and nobody is told. */
  readonly lostReply: number;
  /** It is done twice: the second time later, as when a proxy or a driver sends it again. */
  readonly repeated: number;
  /** It takes so long that whoever asked has given up. */
  readonly slow: number;
  /** The server is away: nothing arrives, and the caller is told so at once or at its deadline. */
  readonly down: boolean;
  /** The server refuses to do it, and says so: a full disk. */
  readonly full: boolean;
}

export const FINE: Weather = { lostRequest: 0, lostReply: 0, repeated: 0, slow: 0, down: false, full: false };

const USUAL_MS = 8;
const SLOW_MS = 12_000;
const REPEATED_WITHIN_MS = 3_000;

export interface ServerSettings {
  readonly name: string;
  /** Callers give up after this; what is still on its way then may be done all the same. */
  readonly deadlineMs: number;
  /** Whether doing an operation twice is something that its callers must live with. */
  readonly mayRepeat?: boolean;
  /** Of a store in the caller's own process: what it has not done yet it never does when the process ends. */
  readonly diesWithCaller?: boolean;
}

/** The name of an operation that nobody asked for: it is not worth a line, and nobody waits for the end of such. */
export const ROUTINE = '';

/** What a server does with a request: it replies, at once or later, or refuses. */
export type Serve<T> = (reply: (result: T) => void, refuse: (fault: Error) => void) => void;

/** One server, and the ways to it. Each operation is one atomic step of it, at a moment that the seed decides. */
export class Server {
  /** Of the ways from each instance: one may be cut off from what the others reach. */
  private readonly weathers = new Map<number, Weather>();
  private readonly names = new Map<string, number>();

  constructor(
    private readonly simulation: Simulation,
    private readonly ambushes: Ambushes,
    private readonly settings: ServerSettings,
  ) {}

  weatherFor(instance: number): Weather {
    return this.weathers.get(instance) ?? FINE;
  }

  /** Of one instance's way, or of all: 'fine' again only where it is still as it was. */
  setWeather(instances: Iterable<number>, weather: Weather): { clear(): void } {
    const chosen = [...instances];
    for (const instance of chosen) this.weathers.set(instance, weather);
    return {
      clear: () => {
        for (const instance of chosen) if (this.weathers.get(instance) === weather) this.weathers.delete(instance);
      },
    };
  }

  clearWeather(): void {
    this.weathers.clear();
  }

  /** Every subject has its own luck, so that a history without one payment is the same history for the others. */
  luckOf(subject: string): Random {
    let name = this.names.get(subject);
    if (name === undefined) {
      name = hashOf(`${this.settings.name}: ${subject}`);
      this.names.set(subject, name);
    }
    return this.simulation.luck(name);
  }

  ask<T>(caller: Actor, operation: string, subject: string, execute: () => T): Promise<T> {
    return this.send(caller, operation, subject, (reply) => reply(execute()));
  }

  /** Where nothing was to be written, a lost reply leaves everything as it was. */
  read<T>(caller: Actor, operation: string, subject: string, execute: () => T): Promise<T> {
    return this.ask(caller, operation, subject, execute).catch((fault: Error) => {
      throw new StoreUnavailable('unchanged', fault.message, fault);
    });
  }

  /**
   * Resolves at the caller with what was replied. Rejects with StoreUnavailable: `unchanged` where it surely was not done,
   * `unknown` where nobody can tell.
   */
  send<T>(caller: Actor, operation: string, subject: string, serve: Serve<T>): Promise<T> {
    const { simulation, ambushes } = this;
    const weather = this.weatherFor(caller.index);
    const { name, deadlineMs, mayRepeat, diesWithCaller } = this.settings;
    const random = this.luckOf(subject);
    const what = simulation.tracing && operation !== ROUTINE ? `${caller.name} ${operation} ${subject}` : '';
    const said = (text: string) => what && `${what}: ${text}`;

    return new Promise<T>((resolve, reject) => {
      // What still runs of an instance that died a moment ago.
      if (!caller.alive) return;
      const asked = { number: ambushes.begin(subject), name: operation };
      let open = true;
      const cancelGiveUp = simulation.after(
        deadlineMs,
        caller,
        () => {
          open = false;
          reject(new StoreUnavailable('unknown', `${name} did not answer in time`));
        },
        said('given up'),
      );
      const close = (give: () => void) => {
        if (!open) return;
        open = false;
        cancelGiveUp();
        give();
      };
      const refuse = (fault: Error) =>
        simulation.after(wayMs(random, weather), caller, () => close(() => reject(fault)), said('refused'));

      if (weather.down && random.fraction() < 0.5) {
        refuse(new StoreUnavailable('unchanged', `${name} is away`));
        return;
      }
      const mishap = ambushes.strikeAt('sent', subject, asked, caller);
      if (mishap === 'lost' || weather.down || random.fraction() < weather.lostRequest) {
        simulation.count('requests lost');
        simulation.note(said('lost on the way'));
        return;
      }
      const lostReply = random.fraction() < weather.lostReply;
      const reply = (result: T) => {
        const mishapOfReply = ambushes.strikeAt('done', subject, asked, caller);
        if (mishapOfReply === 'lost' || lostReply) {
          simulation.count('replies lost');
          simulation.note(said('its reply is lost'));
          return;
        }
        simulation.after(wayMs(random, weather) + (mishapOfReply ?? 0), caller, () => close(() => resolve(result)));
      };
      const arrive = () => {
        if (weather.full) refuse(new StoreUnavailable('unchanged', `${name} is full`));
        else serve(reply, refuse);
      };
      const onTheWayMs = wayMs(random, weather) + (mishap ?? 0);
      const arrivesAt = diesWithCaller ? caller : undefined;
      if (operation === ROUTINE) simulation.after(onTheWayMs, arrivesAt, arrive);
      else simulation.arrive(onTheWayMs, arrivesAt, arrive, what);
      if (mayRepeat && random.fraction() < weather.repeated) {
        const laterMs = wayMs(random, weather) + random.below(REPEATED_WITHIN_MS);
        simulation.count('requests repeated');
        simulation.arrive(laterMs, undefined, () => serve(ignore, ignore), said('again'));
      }
    });
  }
}

function wayMs(random: Random, { slow }: Weather): number {
  if (slow > 0 && random.fraction() < slow) return random.fraction() * SLOW_MS;
  return 0.1 + random.fraction() * USUAL_MS;
}

function ignore(): void {}
