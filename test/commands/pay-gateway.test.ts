import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isTried } from '../../testkit/cases.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { startCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { type GatewayAnswer, ownJson, ownPage, startGateway } from '../../testkit/servers/gateway.js';
import { until } from '../../testkit/time/until.js';

const PAYMENT = ['--amount', '100.00', '--currency', 'USD'];
const UNKNOWN = 4;
const DEADLINE_MS = 60_000;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-command-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * The bug: a gateway forwarded the payment, and answered by itself with `{"status":400,"error":"Gateway rule",...}`. `pay --key-file`
 * took it for the service's refusal, ended with 1, removed the file, and paid with another key when it was run again. The cause: a
 * status, and a body that anybody could have written, were taken for the service's own (rule P23).
 */
describe('idempay pay --key-file behind a gateway that answers by itself after it forwarded the payment', () => {
  const shared = shareProcessedService(embedded);
  const all: [string, GatewayAnswer][] = [
    ...[400, 401, 404, 413, 431].map((status): [string, GatewayAnswer] => [`JSON with ${status}`, ownJson(status)]),
    ...[200, 302, 403, 500].map((status): [string, GatewayAnswer] => [`a page with ${status}`, ownPage(status)]),
  ];
  const answers = all.filter((_, number) => isTried(number));

  it('charges once, and keeps the file until the outcome is known', async () => {
    const before = (await shared().processor.charges()).length;
    await Promise.all(
      answers.map(async ([what, own], at) => {
        const file = join(folder, `order-${at}.key`);
        let answered = 0;
        const gateway = await startGateway(shared().url, async ({ method }, forward) => {
          const answer = await forward();
          if (method !== 'POST') return answer;
          answered += 1;
          return own;
        });
        const pay = () => startCommand(gateway.url, ['pay', ...PAYMENT, '--key-file', file]);
        /** Until it has repeated: it would go on until its deadline. */
        const payAndInterrupt = async () => {
          const paying = pay();
          await until(`the key to be told: ${what}`, DEADLINE_MS, () => paying.output.stderr !== '');
          const before = answered;
          await until(`an answer to a repeat: ${what}`, DEADLINE_MS, () => answered >= before + 2);
          paying.interrupt();
          return (await paying.result).code;
        };
        expect(await payAndInterrupt(), what).toBe(UNKNOWN);
        const kept = readFileSync(file, 'utf8');
        expect(await payAndInterrupt(), what).toBe(UNKNOWN);
        gateway.use((_request, forward) => forward());
        expect(await pay().result, what).toMatchObject({ code: 0, stdout: expect.stringContaining('replayed\ttrue') });
        expect(readFileSync(file, 'utf8'), what).toBe(kept);
        await gateway.close();
      }),
    );
    expect((await shared().processor.charges()).length).toBe(before + answers.length);
    expect(readdirSync(folder)).toHaveLength(answers.length);
  });

  it('by a reference ends with 4, and the same command past the gateway is a repeat', async () => {
    const before = (await shared().processor.charges()).length;
    const gateway = await startGateway(shared().url, async (_request, forward) => {
      await forward();
      return ownJson(402);
    });
    const parameters = ['pay', '--reference', 'order-17', ...PAYMENT];
    const unknown = await runCommandHere(gateway.url, [...parameters, '--deadline', '1']);
    await gateway.close();
    expect([unknown.code, unknown.stderr]).toEqual([UNKNOWN, expect.stringContaining('order-17 (attempt 1)')]);
    const again = await runCommandHere(shared().url, parameters);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('replayed\ttrue') });
    expect((await shared().processor.charges()).length).toBe(before + 1);
  });

  it('sends nothing and keeps no file where the request for a key is answered so', async () => {
    const before = (await shared().processor.charges()).length;
    const gateway = await startGateway(shared().url, async () => ownJson(400));
    const file = join(folder, 'order.key');
    const result = await runCommandHere(gateway.url, ['pay', ...PAYMENT, '--key-file', file]);
    await gateway.close();
    expect(result.code).toBe(10);
    expect(existsSync(file)).toBe(false);
    expect((await shared().processor.charges()).length).toBe(before);
  });
});

describe('a change behind a gateway that answers by itself after it forwarded it', () => {
  const shared = shareProcessedService(embedded);

  it('payments cancel ends with 4, and is repeated past the gateway', async () => {
    const gateway = await startGateway(shared().url, async (_request, forward) => {
      await forward();
      return ownJson(422);
    });
    const parameters = ['payments', 'cancel', '--reference', 'order-18', '--yes'];
    const result = await runCommandHere(gateway.url, [...parameters, '--deadline', '1']);
    await gateway.close();
    expect(result.code).toBe(UNKNOWN);
    expect((await runCommandHere(shared().url, parameters)).code).toBe(0);
  });

  it.each([
    ['transactions create', (_id: string) => ['create', '--from', 'alice', '--to', 'bob', '--amount', '5']],
    ['transactions set-status', (id: string) => ['set-status', id, 'FLAGGED']],
    ['transactions delete', (id: string) => ['delete', id, '--yes']],
  ])('%s ends with 4', async (_what, parametersOf) => {
    const created = ['transactions', 'create', '--from', 'a', '--to', 'b', '--amount', '1', '--json'];
    const { transactionId } = JSON.parse((await runCommandHere(shared().url, created)).stdout);
    const gateway = await startGateway(shared().url, async ({ method }, forward) => {
      const answer = await forward();
      return method === 'GET' ? answer : ownJson(400);
    });
    const parameters = ['transactions', ...parametersOf(`${transactionId}`), '--deadline', '1'];
    const result = await runCommandHere(gateway.url, parameters);
    await gateway.close();
    expect(result.code).toBe(UNKNOWN);
  });
});

/**
 * The bug: a page of HTML with 200 was an empty list, so the export wrote an empty file and ended with 0. Half of an export whose
 * connection ended in an orderly way was written as a whole one. The cause: brackets were counted in whatever came, and NDJSON has no end.
 */
describe('an export through a gateway', () => {
  const shared = shareProcessedService(embedded);
  const exports = [
    ['transactions', ['transactions', 'export']],
    ['payments', ['payments', 'export', '--day', new Date().toISOString().slice(0, 10)]],
  ] as const;
  const formats = ['ndjson', 'csv'] as const;

  it.each(exports)(
    'of %s fails and leaves no file when the answer is a page of HTML with 200',
    async (_what, command) => {
      const gateway = await startGateway(shared().url, async () => ownPage(200));
      for (const format of formats) {
        const file = join(folder, `all.${format}`);
        const result = await runCommandHere(gateway.url, [...command, '--format', format, '-o', file]);
        expect(result).toMatchObject({ code: 10, stdout: '' });
        expect(readdirSync(folder)).toEqual([]);
        expect(await runCommandHere(gateway.url, [...command, '--format', format])).toMatchObject({ code: 10 });
      }
      await gateway.close();
    },
  );

  it.each(exports)('of %s fails and leaves no file when it is cut after a whole row', async (_what, command) => {
    for (const amount of ['1.00', '2.00', '3.00']) {
      await runCommandHere(shared().url, ['pay', '--amount', amount, '--currency', 'EUR']);
      await runCommandHere(shared().url, ['transactions', 'create', '--from', 'a', '--to', 'b', '--amount', amount]);
    }
    const gateway = await startGateway(shared().url, async (_request, forward) => {
      const { text, ...answer } = await forward();
      // As a proxy that speaks HTTP/1.0 ends its answer when the service is killed.
      const cutAt = command[0] === 'payments' ? text.indexOf('\n') + 1 : text.indexOf('}') + 1;
      return { ...answer, text: text.slice(0, cutAt) };
    });
    for (const format of formats) {
      const file = join(folder, `all.${format}`);
      const cut = await runCommandHere(gateway.url, [...command, '--format', format, '-o', file]);
      expect([cut.code, cut.stderr]).toEqual([5, expect.stringContaining('broke off')]);
      expect(readdirSync(folder)).toEqual([]);
      const printed = await runCommandHere(gateway.url, [...command, '--format', format]);
      expect([printed.code, printed.stderr]).toEqual([5, expect.stringContaining('broke off')]);
    }
    await gateway.close();
  });

  it('of payments leaves the end line of the service out of the file', async () => {
    const { stdout } = await runCommandHere(shared().url, [...exports[1][1]]);
    const rows = stdout.trimEnd().split('\n');
    expect(rows.map((row) => typeof JSON.parse(row).idempotencyKey)).toEqual(rows.map(() => 'string'));
  });
});
