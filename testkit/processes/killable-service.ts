import type { Stores } from '../deployments/deployments.js';
import { portOutOfTheWay } from './reference-processor.js';
import type { Service } from './service.js';

/** One service that is killed, paused and started again, at an address that stays the same. */
export interface KillableService {
  readonly url: string;
  /** How often it was killed: a request during which this did not move, sent while it was up, met one process. */
  readonly kills: number;
  readonly isUp: boolean;
  start(): Promise<void>;
  /** SIGKILL: nothing of the process runs any more when this resolves. */
  kill(): Promise<void>;
  /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
}

/** Not yet started. `onOwnEnd` is told of an end that nobody asked for. */
export async function killableService(
  stores: Stores,
  settings: Readonly<Record<string, string>>,
  onOwnEnd: (sentence: string) => void,
): Promise<KillableService> {
  const port = await portOutOfTheWay();
  let running: Service | undefined;
  let kills = 0;
  return {
    url: `http://127.0.0.1:${port}`,
    get kills() {
      return kills;
    },
    get isUp() {
      return running !== undefined;
    },
    async start() {
      const started = await stores.start({ ...settings, PORT: `${port}` });
      running = started;
      started.ended.then((exit) => {
        if (running === started) onOwnEnd(`a service ended by itself: ${JSON.stringify(exit)}`);
      });
    },
    async kill() {
      const killed = running;
      running = undefined;
      kills += 1;
      await killed?.kill();
    },
    pause: () => running?.signal('SIGSTOP'),
    resume: () => running?.signal('SIGCONT'),
  };
}
