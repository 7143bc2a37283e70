import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { startGateway } from '../../testkit/servers/gateway.js';

/** The processor is simulated, and gives back at once. */
describe('idempay refund', () => {
  const service = shareService(embedded);
  const idempay = (...parameters: readonly string[]) => runCommandHere(service.url, parameters);
  const today = () => new Date().toISOString().slice(0, 10);
  const pay = async () => {
    const reference = `order-${randomUUID()}`;
    const paid = await idempay('pay', '--reference', reference, '--amount', '59.90', '--currency', 'EUR', '--json');
    return { reference, key: JSON.parse(paid.stdout).idempotencyKey as string };
  };
  const line = (name: string, amount: string) => ['--name', name, '--amount', amount, '--currency', 'EUR', '--json'];

  it('gives the money back once for each name, and never more than was paid', async () => {
    const { reference, key } = await pay();
    const refund = ['refund', '--reference', reference, ...line('line-2', '12.50')];
    const [first, again] = [await idempay(...refund), await idempay(...refund)];
    expect([first.code, again.code]).toEqual([0, 0]);
    const made = JSON.parse(first.stdout);
    expect(made).toMatchObject({ amount: '12.50', currency: 'EUR', replayed: false, reference, refundName: 'line-2' });
    expect(JSON.parse(again.stdout)).toEqual({ ...made, replayed: true });
    const tooMuch = await idempay('refund', '--key', key, ...line('line-3', '50.00'));
    expect([tooMuch.code, JSON.parse(tooMuch.stderr)]).toMatchObject([8, { left: '47.40', refundName: 'line-3' }]);
    const other = await idempay('refund', '--key', key, ...line('line-2', '1.00'));
    expect([other.code, JSON.parse(other.stderr).idempotencyKey]).toEqual([8, key]);
    expect((await idempay('refund', '--key', key, ...line('rest-1', '47.40'))).code).toBe(0);
  });

  it('whose reply is lost is made by the command that its message has', async () => {
    const { reference } = await pay();
    const gateway = await startGateway(service.url, async (_request, forward) => {
      await forward();
      return { status: 504, headers: {}, text: '' };
    });
    const money = ['--name', 'line-2', '--amount', '12.50', '--currency', 'EUR'];
    const lost = await runCommandHere(gateway.url, ['refund', '--reference', reference, ...money, '--deadline', '1']);
    await gateway.close();
    expect(lost.code).toBe(4);
    const [, command = ''] = /^To go on: idempay (.*)$/m.exec(lost.stderr) ?? [];
    const again = await idempay(...command.split(' '), '--json');
    expect([again.code, JSON.parse(again.stdout)]).toMatchObject([0, { replayed: true, amount: '12.50' }]);
  });

  it('is in lists and exports that ask for it', async () => {
    const { reference, key } = await pay();
    await idempay('refund', '--reference', reference, ...line('line-2', '12.50'), '--reason', 'returned');
    const refunds = await idempay('payments', 'refunds', key, '--json');
    const shown = JSON.parse(refunds.stdout);
    expect(shown).toMatchObject({ amount: '12.50', refund: { payment: key, name: 'line-2', reason: 'returned' } });
    const listed = async (...more: readonly string[]) => (await idempay('payments', 'list', '--json', ...more)).stdout;
    expect(await listed('--kind', 'refund')).toContain(shown.idempotencyKey);
    expect(await listed()).not.toContain(shown.idempotencyKey);
    const exported = await idempay('payments', 'export', '--day', today(), '--kind', 'all', '--format', 'csv');
    expect(exported.stdout).toContain(shown.idempotencyKey);
    expect((await idempay('payments', 'export', '--day', today())).stdout).not.toContain(shown.idempotencyKey);
  });
});
