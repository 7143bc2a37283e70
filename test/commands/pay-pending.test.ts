import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { ask } from '../../testkit/client/http-client.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';

const MONEY = ['--amount', '100.00', '--currency', 'USD'];
const RETURN = ['--return-url', 'https://shop.example/order'];

describe('idempay pay while a payer is present', () => {
  const shared = shareProcessedService(embedded, { ...USUAL_BEHAVIOUR, pendingRate: 1 });
  const idempay = (...parameters: readonly string[]) => runCommandHere(shared().url, parameters);
  const newReference = () => `order-${randomUUID()}`;
  const pay = (reference: string, ...more: readonly string[]) =>
    idempay('pay', '--reference', reference, ...MONEY, ...RETURN, ...more);
  const confirm = (key: string) => ask(`${shared().processor.url}/pending/${key}/confirm`, { method: 'POST' });

  it('prints the address for the payer, and ends with 16', async () => {
    const { code, stdout } = await pay(newReference());
    expect([code, stdout]).toEqual([16, expect.stringMatching(/http:\/\/127\.0\.0\.1:\d+\/pages\/[0-9a-f-]{36}/)]);
  });

  it('with --json has the action as one member, and pays by the same command after the confirmation', async () => {
    const reference = newReference();
    const first = await pay(reference, '--json');
    expect(first.code).toBe(16);
    const { idempotencyKey, ...shown } = JSON.parse(first.stdout);
    expect(shown).toMatchObject({ state: 'pending', action: { url: expect.any(String) }, reference, attempt: 1 });
    await confirm(idempotencyKey);
    const last = await pay(reference, '--wait', '--json');
    expect([last.code, JSON.parse(last.stdout)]).toMatchObject([0, { idempotencyKey, amount: '100.00' }]);
  });

  it('goes on asking with --wait until there is an outcome', async () => {
    const reference = newReference();
    const [, { code }] = await Promise.all([
      (async () => {
        const { idempotencyKey } = JSON.parse((await pay(reference, '--json')).stdout);
        await confirm(idempotencyKey);
      })(),
      pay(reference, '--wait'),
    ]);
    expect(code).toBe(0);
  });

  it('is in the list with --pending, and can be ended alone, so that the next attempt follows', async () => {
    const reference = newReference();
    const { idempotencyKey } = JSON.parse((await pay(reference, '--json')).stdout);
    const listed = await idempay('payments', 'list', '--pending', '--json');
    expect(listed.stdout).toContain(idempotencyKey);
    const status = await idempay('status', '--reference', reference, '--json');
    expect([status.code, JSON.parse(status.stdout)]).toMatchObject([4, { pendingUntil: expect.any(String) }]);
    expect((await pay(reference, '--attempt', '2')).code).toBe(8);
    const ended = await idempay('payments', 'cancel', '--reference', reference, '--only-attempt', '--yes', '--json');
    expect([ended.code, JSON.parse(ended.stdout)]).toMatchObject([0, { state: 'DECLINED', idempotencyKey }]);
    expect((await pay(reference, '--attempt', '2')).code).toBe(16);
    expect((await idempay('payments', 'cancel', '--reference', reference, '--attempt', '2', '--yes')).code).toBe(0);
  });

  it('takes --wait only with --return-url, and --only-attempt only with --reference', async () => {
    expect((await idempay('pay', '--reference', newReference(), ...MONEY, '--wait')).code).toBe(1);
    expect((await idempay('payments', 'cancel', randomUUID(), '--only-attempt', '--yes')).code).toBe(1);
  });
});
