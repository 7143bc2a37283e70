import { Agent } from 'node:http';
import { ask } from '../../testkit/client/http-client.js';
import { readSamples } from '../../testkit/client/metrics.js';
import { wasDisturbed } from '../../testkit/history/disturbances.js';
import type { History, Target, Violation } from '../../testkit/history/history.js';
import { patience } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

const SCRAPE_EVERY_MS = 500;
/** No store is asked. */
const SCRAPED_WITHIN_MS = 5_000;
/** A busy machine notices this long after the connections of a process broke that the process has ended by itself. */
const NOTICED_MS = 2_000;

/** Collects the metrics of each process during the whole run. Only a process that is killed or stopped may fail to show them. */
export class Scraper {
  readonly violations: Violation[] = [];
  scrapes = 0;

  constructor(private readonly history: History) {}

  async run(targets: readonly Target[], stop: AbortSignal): Promise<void> {
    await Promise.all(
      targets.map(async (target) => {
        while (!stop.aborted) {
          await this.scrape(target);
          await pause(SCRAPE_EVERY_MS);
        }
      }),
    );
  }

  private async scrape({ name, url }: Target): Promise<void> {
    const sentAt = performance.now();
    const problem = await problemOf(url);
    this.scrapes += 1;
    if (problem === undefined) return;
    await pause(NOTICED_MS);
    const { all } = this.history.disturbances;
    if (wasDisturbed(all, [name], sentAt, performance.now())) return;
    this.violations.push({ rule: 'no scrape fails', subject: name, what: problem, history: [] });
  }
}

/** Undefined for an answer as it should be. On a connection of its own: a kept one may be to a process that was killed. */
async function problemOf(url: string): Promise<string | undefined> {
  const agent = new Agent();
  try {
    const { status, text } = await ask(`${url}/metrics`, {
      agent,
      signal: AbortSignal.timeout(patience(SCRAPED_WITHIN_MS)),
    });
    if (status !== 200) return `${status} ${text}`;
    return readSamples(text).length > 0 ? undefined : 'no samples';
  } catch (error) {
    return String(error);
  } finally {
    agent.destroy();
  }
}
