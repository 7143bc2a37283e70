import type { Deployment } from '../deployments/deployments.js';
import { Disturbances } from '../history/disturbances.js';
import { Opened } from '../opened.js';
import { serveReferenceProcessor } from '../processes/reference-processor.js';
import { SupervisedService } from '../processes/supervised-service.js';
import type { Random } from '../random.js';
import { startHttpFaultProxy } from '../servers/http-fault-proxy.js';
import { pause } from '../time/until.js';

/** The share of requests that meet a fault; the issue that asked for this client names it. */
const FAULT_RATE = 0.2;
const SHORTEST_CALM_MS = 3_000;
const LONGEST_CALM_MS = 10_000;
const LONGEST_DOWN_MS = 800;
const PROCESSOR_TIMEOUT_MS = 800;
/** A key expires while its call still repeats, now and then. */
const KEY_LIFE_SECONDS = 5;

const SETTINGS = {
  LOCK_TTL_SECONDS: '2',
  PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
  IDEMPOTENCY_TTL_SECONDS: `${KEY_LIFE_SECONDS}`,
};
const BEHAVIOUR = { latencyMs: 5, replyLatencyMs: 5, declineRate: 0.05, failRate: 0.02, lostReplyRate: 0.02 };
const HEALED = { latencyMs: 0, replyLatencyMs: 0, declineRate: 0, failRate: 0, lostReplyRate: 0 };

/** Services on the stores of a deployment, behind a proxy that damages one call in five, before a processor that fails now and then. */
export async function openFaultyEnvironment(
  deployment: Deployment,
  random: Random,
  settings: Record<string, string> = {},
) {
  const opened = new Opened();
  try {
    const stores = await opened.keep(deployment.open());
    const processor = await opened.keep(serveReferenceProcessor({ behaviour: BEHAVIOUR }));
    const failures: string[] = [];
    const names = deployment.name === 'embedded' ? ['service'] : ['service 1', 'service 2'];
    const services = await Promise.all(
      names.map((name) =>
        opened.keep(
          SupervisedService.create({
            name,
            environment: { ...stores.environment, ...SETTINGS, ...settings, PROCESSOR_URL: processor.url },
            disturbances: new Disturbances(),
            onOwnEnd: (sentence) => failures.push(sentence),
          }),
        ),
      ),
    );
    await Promise.all(services.map((service) => service.up()));
    const sentAt = new Map<string, number>();
    const onRequest = (path: string, body: string) => {
      if (path !== '/api/payment') return;
      const { amount } = JSON.parse(body) as { amount: string };
      if (!sentAt.has(amount)) sentAt.set(amount, performance.now());
    };
    const options = { random: random.fork(), rate: FAULT_RATE, targets: () => services, onRequest };
    const proxy = await opened.keep(startHttpFaultProxy(options));
    let kills = 0;

    return {
      url: proxy.url,
      proxy,
      processor,
      /** When the first payment of each amount reached the proxy. */
      sentAt,
      /** Services that ended by themselves. */
      failures,
      kills: () => kills,
      /** Kills one service after the other while the work goes on. */
      async killingDuring(work: () => Promise<void>): Promise<void> {
        const ended = new AbortController();
        const killer = (async () => {
          while (!ended.signal.aborted) {
            await pause(SHORTEST_CALM_MS + random.below(LONGEST_CALM_MS - SHORTEST_CALM_MS));
            if (ended.signal.aborted) break;
            await random.pick(services).kill(random.below(LONGEST_DOWN_MS));
            kills += 1;
          }
        })();
        await work().finally(() => ended.abort());
        await killer;
      },
      /** Everything is up again, and nothing is on its way. */
      async heal(): Promise<void> {
        await processor.behave(HEALED);
        await Promise.all(services.map((service) => service.up()));
        await proxy.heal();
      },
      close: () => opened.close(),
    };
  } catch (fault) {
    await opened.close();
    throw fault;
  }
}
