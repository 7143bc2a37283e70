import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, expectInProgress, expectReplay, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  ENDLESS_MS,
  expectNotSent,
  expectPaid,
  expectUnknown,
  LEASE_MS,
  REACHED_DEADLINE_MS,
  setProcessorEnvironment,
} from '../../testkit/deployments/processor-environment.js';
import type { LogLine } from '../../testkit/processes/service.js';
import { type Received, startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const ALARM_LEVEL = 50;
const PAYMENTS = 4;
/** Recovery takes over nothing that was given up less than this long ago. */
const FIRST_BACK_OFF_MS = 1_000;
/** Without a processor's URL nothing moves; a simulated payment takes no time. */
const SIMULATED = { PROCESSOR_URL: '' };

describeDeployments('a processor that refuses our requests', (deployment) => {
  const environment = setProcessorEnvironment(deployment);
  /** The alarm is throttled for ten seconds, so each status is met by a service of its own: one with another setting. */
  const alarmsIn = (logs: readonly LogLine[]) =>
    logs.filter(({ level, msg }) => level >= ALARM_LEVEL && msg?.includes('look at'));

  it.each([401, 403, 404, 422, 400])(
    'with %i sounds one alarm at once, and pays when it is mended',
    async (refuseWith) => {
      const { payer, processor } = environment;
      const { url, logs } = await environment.serve({ PROCESSOR_DEDUP_SECONDS: `${70_000 + refuseWith}` });
      await processor.behave({ refuseWith });
      const keys: string[] = [];
      for (let index = 0; index < PAYMENTS; index += 1) {
        const key = await payer.newKey(url);
        expectUnknown(await payer.pay(url, key));
        keys.push(key);
        await until('the alarm', REACHED_DEADLINE_MS, () => alarmsIn(logs).length > 0);
      }
      expectUnknown(await payer.repeat(url, keys[0] as string));
      expect(alarmsIn(logs)).toMatchObject([
        { level: ALARM_LEVEL, msg: expect.stringContaining(`answered ${refuseWith}`) },
      ]);

      await processor.behave({ refuseWith: null });
      for (const key of keys) await environment.expectRepeatPays(url, key);
      await environment.check();
    },
  );
});

describeDeployments('a service that is started for another processor', (deployment) => {
  const environment = setProcessorEnvironment(deployment);

  it('leaves the claims of the one before alone, and finishes them when it has that one again', async () => {
    const { payer, processor } = environment;
    const before = await environment.serve();
    const charged = await environment.givenUnknown(before.url, { lostReplyRate: 1 });
    await processor.kill();
    const neverSent = await payer.newKey(before.url);
    expectNotSent(await payer.pay(before.url, neverSent));
    await untilPast(FIRST_BACK_OFF_MS);

    const { url } = await environment.serve(SIMULATED);
    const rows = await Promise.all([charged, neverSent].map((key) => shownPayment(url, key)));
    for (const key of [charged, neverSent]) {
      expectInProgress(await payer.pay(url, key), LEASE_MS / 1000);
      expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    }
    const simulated = await payer.newKey(url);
    const simulatedId = expectFirst(await payer.pay(url, simulated));
    expect(await shownPayment(url, simulated)).toMatchObject({ processor: 'simulated', state: 'COMPLETED' });
    // Recovery has had its round at the start, and nobody has touched them.
    const untouched = { state: 'PROCESSING', processor: `${processor.url}?no-user`, attempts: 1 };
    expect(rows).toMatchObject([untouched, untouched]);
    expect(await Promise.all([charged, neverSent].map((key) => shownPayment(url, key)))).toEqual(rows);

    await processor.restart();
    const after = await environment.serve();
    expectPaid(await payer.repeat(after.url, charged));
    const { transactionId } = await untilFinished(after.url, neverSent);
    expectReplay(await payer.pay(after.url, neverSent), transactionId as string);
    expectReplay(await payer.pay(after.url, simulated), simulatedId);
    await environment.check();
  });

  it('never charges for a payment that was begun as a simulated one', async () => {
    const { payer, stores } = environment;
    await environment.stop();
    // Killed in the middle of its payment, so it is a process.
    const endless = { ...SIMULATED, PROCESSOR_DELAY_MS: `${ENDLESS_MS}`, LOCK_TTL_SECONDS: '1' };
    const before = await stores.start(endless);
    const key = await payer.newKey(before.url);
    const cut = expect(payer.pay(before.url, key)).rejects.toThrow();
    await until('the claim', REACHED_DEADLINE_MS, async () => {
      return (await shownPayment(before.url, key))?.state === 'PROCESSING';
    });
    await before.kill();
    await cut;

    const { url } = await environment.serve();
    expectInProgress(await payer.pay(url, key), LEASE_MS / 1000);
    // Recovery finishes this one, a back-off later at the earliest, so it has met the other one too.
    await untilFinished(url, await environment.givenUnknown(url, { lostReplyRate: 1 }));
    expectInProgress(await payer.pay(url, key), LEASE_MS / 1000);
    expect(await shownPayment(url, key)).toMatchObject({ state: 'PROCESSING', processor: 'simulated', attempts: 1 });

    const after = await environment.serve(SIMULATED);
    await untilFinished(after.url, key);
    expectReplay(await payer.pay(after.url, key));
    await environment.check();
  });
});

/** A processor with accounts: each knows its own charges only. The reply to a charge is lost while `losesReplies`. */
async function startProcessorWithAccounts() {
  const behaviour = { losesReplies: false };
  const charges: string[] = [];
  const recordOf = ({ headers }: Received, reference: unknown) => `${headers.authorization} ${reference}`;
  const server = await startHttpServer((response, request) => {
    if (request.method === 'GET') {
      const known = charges.includes(recordOf(request, request.url.split('/').at(-1)));
      response.writeHead(known ? 200 : 404).end('{"status":"succeeded"}');
      return;
    }
    charges.push(recordOf(request, request.headers['idempotency-key']));
    if (behaviour.losesReplies) response.destroy();
    else response.end('{"status":"succeeded"}');
  });
  return { behaviour, charges, urlFor: (user: string) => `http://${user}:secret@127.0.0.1:${server.port}/` };
}

describeDeployments('a service that is started for another account of its processor', (deployment) => {
  /**
   * Bug: a payment was charged at account A and its reply lost; after a restart with account B recovery looked it up there,
   * found no record, and charged account B: two charges for one row. Fix: the account is part of the processor's name.
   */
  it('leaves the payments of the account before alone, and finishes them when it has that one again', async () => {
    const processor = await startProcessorWithAccounts();
    const stores = await deployment.open();
    try {
      const settings = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`, PROCESSOR_TIMEOUT_MS: '1000' };
      const serveFor = (user: string) => stores.serve({ ...settings, PROCESSOR_URL: processor.urlFor(user) });

      const before = await serveFor('merchant-a');
      processor.behaviour.losesReplies = true;
      const key = await generateKey(before.url);
      expectUnknown(await pay(before.url, key));
      await before.stop();

      const other = await serveFor('merchant-b');
      expectInProgress(await pay(other.url, key), LEASE_MS / 1000);
      // Recovery finishes this one, a back-off later at the earliest, so it has met the other one too.
      const probe = await generateKey(other.url);
      expectUnknown(await pay(other.url, probe));
      expect(await untilFinished(other.url, probe)).toMatchObject({ state: 'COMPLETED' });
      expect(await shownPayment(other.url, key)).toMatchObject({ state: 'PROCESSING', attempts: 1 });
      await other.stop();

      const after = await serveFor('merchant-a');
      await until('the account to be asked', REACHED_DEADLINE_MS, async () => {
        return (await pay(after.url, key)).status === 200;
      });
      expect(processor.charges.filter((charge) => charge.endsWith(key))).toHaveLength(1);
      expect(JSON.stringify(after.logs)).not.toContain('merchant-a');
    } finally {
      await stores.close();
    }
  });
});
