import { afterAll, beforeAll, describe, test } from 'vitest';
import { type FailoverTrial, startTrial } from '../../testkit/deployments/failover-trial.js';
import { type SentinelTrio, startSentinelTrio } from '../../testkit/servers/sentinel.js';

const ROUND_MS = 240_000;

/** Two processes pay and write on while Sentinels replace the master under them. */
describe('under load with Sentinels', () => {
  let trio: SentinelTrio;
  let trial: FailoverTrial;

  beforeAll(async () => {
    trio = await startSentinelTrio();
    trial = await startTrial(trio.url);
  });
  afterAll(async () => {
    await trial?.close();
    await trio?.close();
  });

  test.each([1, 2, 3])(
    'a killed master costs seconds, no payment and no truth (%i of 3)',
    async (round) => {
      const victim = await trio.master();
      await trial.round(`Sentinel, master killed, ${round} of 3`, () => victim.kill());
      await victim.start();
      await trio.whole();
    },
    ROUND_MS,
  );

  test(
    'a master that hangs, is replaced and then goes on shows nobody what it held',
    async () => {
      const victim = await trio.master();
      if (!victim) throw new Error('there is no master');
      await trial.round(
        'Sentinel, master paused, then going on',
        async () => victim.signal('SIGSTOP'),
        () => victim.signal('SIGCONT'),
      );
      await trio.whole();
    },
    ROUND_MS,
  );

  test(
    'a master that is told to give way, and lives on as a replica, costs as little',
    async () => {
      await trial.round('Sentinel, master told to give way', () => trio.giveWay());
    },
    ROUND_MS,
  );
});
