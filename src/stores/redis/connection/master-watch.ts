import { Redis } from 'ioredis';
import { messageOf } from './fault.js';
import { addressOf, type Sentinels, wordsOf } from './sentinels.js';

/** Finds a failover whose announcement was lost. */
const LOOK_EVERY_MS = 5_000;
/** While there is no master the log says this often what was tried. */
const REPORT_EVERY_MS = 10_000;
const RESUBSCRIBE_MS = 1_000;

/**
 * Leaves a master that the Sentinels have replaced, however well it answers, and says in the log which master this process
 * holds, for how long, and what the Sentinels say while it finds none. Ends when the client is closed for good.
 */
export function watchMaster(client: Redis, sentinels: Sentinels, warn: (sentence: string) => void): void {
  const listeners = new Map<string, Redis>();
  let held: { readonly address: string; readonly since: number } | undefined;
  let missingSince: number | undefined = performance.now();
  let reportedAt = missingSince;
  let lossIsReported = false;
  let lastError = '';
  let looking = false;

  function onReady(): void {
    const master = sentinels.masterBehind(client.stream);
    const address = master ? addressOf(master) : 'unknown';
    if (missingSince !== undefined && lossIsReported) {
      warn(`The Redis master is ${address}, after ${elapsed(missingSince)} without one. ${wordsOf(sentinels.latest)}.`);
    }
    held = { address, since: performance.now() };
    missingSince = undefined;
    lossIsReported = false;
    lastError = '';
    // It may have been replaced while we connected to it.
    void look();
  }

  function onClose(): void {
    // We have closed it for good.
    if (client.status === 'end' || missingSince !== undefined) return;
    missingSince = performance.now();
    reportedAt = missingSince;
    lossIsReported = true;
    warn(
      `The Redis master ${held?.address}, held for ${held && elapsed(held.since)}, is lost. All Sentinels are asked.`,
    );
    held = undefined;
  }

  /** Asks all Sentinels, and leaves a master that none of those with the newest configuration names any more. */
  async function look(): Promise<void> {
    if (looking) return;
    looking = true;
    const answers = await sentinels.ask();
    looking = false;
    if (client.status === 'end') return;
    listenToAll();
    const isConnected = client.status === 'connect' || client.status === 'ready';
    const master = isConnected && sentinels.masterBehind(client.stream);
    // A Sentinel with an older configuration does not know yet of the failover that we followed.
    const isNewer = master && answers.master && answers.master.epoch >= master.epoch;
    if (isNewer && !answers.isNamed(addressOf(master))) {
      warn(`The Sentinels have replaced the Redis master ${addressOf(master)}, which is left. ${wordsOf(answers)}.`);
      client.disconnect(true);
    }
    reportMissing();
  }

  function reportMissing(): void {
    const now = performance.now();
    if (missingSince === undefined || now - reportedAt < REPORT_EVERY_MS) return;
    reportedAt = now;
    lossIsReported = true;
    const tried = lastError && ` The last attempt failed: ${lastError}.`;
    warn(`No Redis master for ${elapsed(missingSince)} (${client.status}). ${wordsOf(sentinels.latest)}.${tried}`);
  }

  /** A connection to each Sentinel that receives failovers as they happen; the next look finds those that it misses. */
  function listenToAll(): void {
    for (const node of sentinels.nodes) {
      if (listeners.has(addressOf(node))) continue;
      const listener = new Redis({
        ...sentinels.options(node),
        lazyConnect: false,
        retryStrategy: () => RESUBSCRIBE_MS,
      });
      listeners.set(addressOf(node), listener);
      listener.on('error', () => {});
      listener.on('ready', () => listener.subscribe('+switch-master').catch(() => {}));
      listener.on('message', () => void look());
    }
  }

  client.on('ready', onReady);
  client.on('close', onClose);
  client.on('error', (error: Error) => {
    lastError = messageOf(error);
  });
  const timer = setInterval(look, LOOK_EVERY_MS).unref();
  client.once('end', () => {
    clearInterval(timer);
    for (const listener of listeners.values()) listener.disconnect();
  });
  listenToAll();
}

function elapsed(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`;
}
