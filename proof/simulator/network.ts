import { StoreUnavailable } from '#idempay/errors.js';
import type { Random } from '../../test/support/random.js';
import type { Actor, Simulation } from './simulation.js';

/** What the way between an instance and a server is like at the moment. Chances from 0 to 1. */
export interface Weather {
  /** The request never arrives. */
  lostRequest: number;
  /** It is done, and nobody is told. */
  lostReply: number;
  /** It is done twice: the second time later, as when a proxy or a driver sends it again. */
  repeated: number;
  /** It takes so long that whoever asked has given up. */
  slow: number;
  /** The server is away: nothing arrives, and the caller is told so at once or at its deadline. */
  down: boolean;
}

export const FINE: Weather = { lostRequest: 0, lostReply: 0, repeated: 0, slow: 0, down: false };

const USUAL_MS = 8;
const SLOW_MS = 12_000;

/** One server, and the ways to it. Each operation is one atomic step of it, at a moment that the seed decides. */
export class Server {
  weather: Weather = { ...FINE };

  constructor(
    private readonly simulation: Simulation,
    readonly name: string,
    /** Callers give up after this; what is still on its way then may be done all the same. */
    private readonly deadlineMs: number,
    private readonly random: Random,
    /** Whether doing an operation twice is something that its callers must live with. */
    private readonly mayRepeat = false,
  ) {}

  /**
   * Resolves at the caller with what `execute` gave at the server. Rejects with StoreUnavailable: `unchanged` where it
   * surely was not done, `unknown` where nobody can tell.
   */
  ask<T>(caller: Actor, operation: string, execute: () => T): Promise<T> {
    const { simulation, random, weather } = this;
    const what = `${caller.name} ${operation}`;
    return new Promise<T>((resolve, reject) => {
      let open = true;
      const giveUp = simulation.after(this.deadlineMs, `${what}: given up`, caller, () => {
        open = false;
        reject(new StoreUnavailable('unknown', `${this.name} did not answer in time`));
      });

      const answer = (give: () => void) => {
        if (!open) return;
        open = false;
        giveUp();
        give();
      };
      if (weather.down && random.fraction() < 0.5) {
        simulation.after(this.wayMs(), `${what}: refused`, caller, () =>
          answer(() => reject(new StoreUnavailable('unchanged', `${this.name} is away`))),
        );
        return;
      }
      if (weather.down || random.fraction() < weather.lostRequest) {
        simulation.note(`${what}: lost on the way`);
        return;
      }
      const lostReply = random.fraction() < weather.lostReply;
      const arrive = () => {
        const result = execute();
        if (lostReply) {
          simulation.note(`${what}: its reply is lost`);
          return;
        }
        simulation.after(this.wayMs(), '', caller, () => answer(() => resolve(result)));
      };
      simulation.after(this.wayMs(), what, undefined, arrive);
      if (this.mayRepeat && random.fraction() < weather.repeated) {
        simulation.after(this.wayMs() + random.below(3_000), `${what}: again`, undefined, () => void execute());
      }
    });
  }

  private wayMs(): number {
    const { random, weather } = this;
    if (random.fraction() < weather.slow) return random.fraction() * SLOW_MS;
    return 0.1 + random.fraction() * USUAL_MS;
  }
}
