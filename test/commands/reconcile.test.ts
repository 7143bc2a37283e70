import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { exitCodeOf } from '#idempay/cli/payments/reconcile.js';
import { jsonOf, textOf } from '#idempay/cli/payments/reconciliation-output.js';
import { openStatement, type StatementOptions, settingsOf } from '#idempay/cli/payments/statement-file.js';
import { dayAfter, todayUtc } from '#idempay/statements/days.js';
import type { SettledPayment } from '#idempay/statements/differences.js';
import { differenceCsvLine } from '#idempay/statements/differences-file.js';
import { type Reconciliation, reconcile } from '#idempay/statements/reconcile.js';
import { casesOf } from '../../testkit/cases.js';
import { ask } from '../../testkit/client/http-client.js';
import { payOrder } from '../../testkit/client/orders.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { FULL_OUTPUT, runCommand, startCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { type Random, seededRandom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const AMOUNTS = ['100.50', '1200.00', '7.25'];
const HEADER = 'reference,amount,currency,status';

interface Paid {
  readonly idempotencyKey: string;
  readonly transactionId: string;
  readonly reference: string;
  readonly amount: string;
  readonly currency: string;
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-reconcile-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('idempay payments reconcile', () => {
  const shared = shareProcessedService(embedded);
  const idempay = (...parameters: string[]) => runCommandHere(shared().url, parameters);
  /** Three payments of orders, in the order of settling. */
  let paid: readonly Paid[];
  /** The day of the first one (UTC). All are settled within a second, so midnight hardly ever divides them. */
  let day: string;
  beforeAll(async () => {
    for (const [index, amount] of AMOUNTS.entries()) {
      const answer = await payOrder(shared().url, { reference: `order-${index + 1}`, amount, currency: 'EUR' });
      expect(answer.status).toBe(200);
    }
    const { json } = await ask(`${shared().url}/api/payments?reference=order-1`);
    const [first] = json<readonly { settledAt: string }[]>();
    day = first?.settledAt.slice(0, '2026-11-20'.length) ?? '';
    const { stdout } = await idempay('payments', 'export', '--day', day);
    paid = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(paid.map(({ amount }) => amount)).toEqual(AMOUNTS);
  });

  const lineOf = ({ idempotencyKey, amount, currency }: Paid) => `${idempotencyKey},${amount},${currency},succeeded`;
  const agreedLines = () => [HEADER, ...paid.map(lineOf)];

  /** The result for a statement with these lines, or these bytes. */
  function reconcile(statement: readonly string[] | Uint8Array, ...parameters: string[]) {
    const file = join(folder, 'statement.csv');
    writeFileSync(file, statement instanceof Uint8Array ? statement : `${statement.join('\n')}\n`);
    return idempay('payments', 'reconcile', file, '--day', day, ...parameters);
  }
  async function reconcileAsJson(...parameters: Parameters<typeof reconcile>) {
    const [statement, ...options] = parameters;
    const { code, stdout } = await reconcile(statement, ...options, '--json');
    expect(stdout.trimEnd()).not.toContain('\n');
    return { code, ...JSON.parse(stdout) };
  }
  const withLine = (index: number, change: (line: string) => string[]) =>
    agreedLines().flatMap((line, at) => (at === index ? change(line) : [line]));

  it('a day on which both sides agree ends with 0, also as JSON', async () => {
    const { code, stdout, stderr } = await reconcile(agreedLines());
    expect(code).toBe(0);
    if (day === todayUtc())
      expect(stderr).toBe(
        `The day ${day} has not ended yet (UTC): payments may be missing. Compare again when it has.\n`,
      );
    expect(stdout).toContain(`Agreed: the statement and Idempay have the same payments of ${day}.\n`);
    expect(stdout).toMatch(/^ +count +in Idempay +at the processor$/m);
    expect(stdout).toMatch(/^The same on both sides +3 +1307\.75 EUR +1307\.75 EUR$/m);
    expect(stdout).toMatch(/^Only in Idempay +0 +- +-$/m);
    expect(stdout).not.toContain('Refunds');
    expect(await reconcileAsJson(agreedLines())).toMatchObject({
      code: 0,
      day,
      processor: null,
      agreed: true,
      lines: { read: 3, refused: 0, skipped: 1 },
      payments: 3,
      groups: {
        matched: {
          count: 3,
          idempay: [{ currency: 'EUR', amount: '1307.75' }],
          processor: [{ currency: 'EUR', amount: '1307.75' }],
        },
        onlyInIdempay: { count: 0, idempay: [], processor: [] },
      },
      differences: [],
      otherDays: [],
      problems: [],
    });
  });

  /**
   * Bug: a payment on the statements of two days in a row agreed on both of them, and nothing named it, although it may have been charged twice.
   * Cause: what was settled on a day next to the chosen one was only counted. Fix: it is listed, in the text, as JSON and in the file.
   */
  it('lists what was settled on a day next to the chosen one, because it may be on two statements', async () => {
    const [file, differences] = [join(folder, 'statement.csv'), join(folder, 'differences.csv')];
    writeFileSync(file, `${agreedLines().join('\n')}\n`);
    const parameters = ['payments', 'reconcile', file, '--day', dayAfter(day, 1)];
    const { code, stdout } = await idempay(...parameters, '--differences', differences);
    expect(code).toBe(14);
    expect(stdout).toContain(
      'The same, settled in Idempay on a day next to it (3)\nIf the statement of the day on which they were settled has them too, they were charged twice.\n',
    );
    const rows = parse(readFileSync(differences, 'utf8'), { columns: true, bom: true });
    const asJson = JSON.parse((await idempay(...parameters, '--json')).stdout);
    expect(asJson).toMatchObject({ differences: [], groups: { otherDay: { count: 3 } } });
    for (const [index, { idempotencyKey, reference, amount }] of paid.entries()) {
      expect(stdout).toMatch(
        new RegExp(
          `^  ${idempotencyKey} \\(${reference}, attempt 1\\): settled at ${day}T.*; in Idempay ${amount} EUR`,
          'm',
        ),
      );
      const payment = expect.objectContaining({ idempotencyKey, reference });
      expect(asJson.otherDays).toContainEqual(
        expect.objectContaining({ kind: 'otherDay', differs: [], line: index + 2, payment }),
      );
      expect(rows).toContainEqual(
        expect.objectContaining({ 'idempotency key': idempotencyKey, 'our reference': reference }),
      );
    }
    expect([asJson.otherDays.length, rows.length]).toEqual([3, 3]);
  });

  it("the processor's own log agrees, read from standard input", async () => {
    const file = join(folder, 'charges.ndjson');
    const charges = await shared().processor.charges();
    writeFileSync(file, charges.map((charge) => `${JSON.stringify(charge)}\n`).join(''));
    const parameters = ['payments', 'reconcile', '-', '--day', day, '--json'];
    const result = await runCommand(shared().url, parameters, {}, ['sh', '-c', 'exec "$@" < "$0"', file]);
    expect([result.code, JSON.parse(result.stdout).agreed]).toEqual([0, true]);
  });

  it('counts in the currency of the column of amounts that was named', async () => {
    const lines = [
      'order,Amount (USD),Settlement (EUR)',
      ...paid.map(({ reference, amount }) => `${reference},1.00,${amount}`),
    ];
    expect((await reconcile(lines, '--column', 'amount=Settlement (EUR)')).code).toBe(0);
    expect((await reconcile(lines)).code).toBe(13);
  });

  /** Bug: the first of two columns of one name was compared, and nothing said so. */
  it('asks which one of two columns of one name is meant', async () => {
    const lines = agreedLines().map((line, at) => `${line},${at === 0 ? 'Status,Settlement' : 'failed,paid'}`);
    const { code, stdout, stderr } = await reconcile(lines);
    expect([code, stdout, stderr]).toEqual([14, '', expect.stringContaining('several columns “status”')]);
    expect(stderr).toContain('--column status=NAME, or --column status= for none.');
    expect((await reconcile(lines, '--column', 'status=Settlement')).code).toBe(0);
    expect((await reconcile(lines, '--column', 'status=')).code).toBe(0);
  });

  it('reads the amount also where a column of credits is left out by name', async () => {
    const lines = agreedLines().map((line, at) => `${line},${at === 0 ? 'credit' : ''}`);
    expect((await reconcile(lines, '--column', 'credit=')).code).toBe(0);
  });

  it('names the file that cannot be written, and not the statement', async () => {
    const { code, stderr } = await reconcile(agreedLines(), '--differences', '/nowhere/differences.csv');
    expect([code, stderr]).toEqual([1, expect.stringContaining('/nowhere/differences.csv cannot be written (ENOENT)')]);
    expect(stderr).not.toContain('cannot be read');
  });

  it('says first that not one line names an order of the day', async () => {
    const others = ['order,amount,currency', 'order_Abc1,100.50,EUR', 'order_Abc2,7.00,EUR'];
    const { code, stdout } = await reconcile(others);
    expect([code, stdout]).toEqual([
      13,
      expect.stringMatching(/^No line of the statement names an order of \d{4}-\d\d-\d\d/),
    ]);
    expect(await reconcileAsJson(others)).toMatchObject({ code: 13, namesOrders: false });
    expect(await reconcileAsJson(agreedLines())).toMatchObject({ code: 0, namesOrders: true });
  });

  it('says where no payment of the day has the processor', async () => {
    const { code, stderr } = await reconcile(agreedLines(), '--processor', 'http://another.example');
    expect([code, stderr]).toEqual([13, expect.stringContaining('leave --processor out')]);
  });

  it('a changed, a missing, an added and a doubled line are told apart, and end with 13', async () => {
    const [first, second, third] = paid as [Paid, Paid, Paid];
    const changed = await reconcileAsJson(withLine(1, (line) => [line.replace('100.50', '100.05')]));
    expect(changed).toMatchObject({ code: 13, agreed: false });
    expect(changed.differences).toEqual([
      {
        kind: 'different',
        differs: ['amount'],
        line: 2,
        payment: expect.objectContaining({
          idempotencyKey: first.idempotencyKey,
          amount: '100.50',
          reference: 'order-1',
        }),
        statement: {
          ...{ reference: first.idempotencyKey, order: '', transactionId: '' },
          ...{ amount: '100.05', currency: 'EUR', status: 'succeeded', state: 'COMPLETED' },
        },
      },
    ]);
    const missing = await reconcileAsJson(withLine(2, () => []));
    expect([missing.code, missing.differences]).toEqual([
      13,
      [expect.objectContaining({ kind: 'onlyInIdempay', line: null, statement: null })],
    ]);
    expect(missing.differences[0].payment.idempotencyKey).toBe(second.idempotencyKey);
    const added = await reconcileAsJson([...agreedLines(), '0190f3a2-0000-7000-8000-000000000000,5.00,EUR,succeeded']);
    expect([added.code, added.differences]).toEqual([
      13,
      [expect.objectContaining({ kind: 'onlyAtProcessor', line: 5, payment: null })],
    ]);
    expect(added.groups.onlyAtProcessor.processor).toEqual([{ currency: 'EUR', amount: '5.00' }]);
    const doubled = await reconcileAsJson([...agreedLines(), lineOf(third)]);
    expect([doubled.code, doubled.differences]).toEqual([
      13,
      [expect.objectContaining({ kind: 'duplicate', line: 5, comparedLine: 4 })],
    ]);
  });

  it('all of them are lines for a person, and rows of the file of differences', async () => {
    const [first, second, third] = paid as [Paid, Paid, Paid];
    const lines = [
      HEADER,
      lineOf({ ...first, amount: '100.05' }),
      ...[lineOf(third), lineOf(third), 'order-99,5.00,EUR,succeeded'],
      `${first.idempotencyKey},-5.00,EUR,succeeded`,
    ];
    const file = join(folder, 'differences.csv');
    const { code, stdout } = await reconcile(lines, '--differences', file);
    expect(code).toBe(13);
    expect(stdout).toContain(`5 differences between the statement and the payments of ${day}.\n`);
    expect(stdout).toContain(
      `  ${first.idempotencyKey} (order-1, attempt 1): amount; in Idempay 100.50 EUR COMPLETED ${first.transactionId}; at the processor line 2: 100.05 EUR succeeded ${first.idempotencyKey}\n`,
    );
    expect(stdout).toContain('Only at the processor (1)\n');
    expect(stdout).toContain('  line 5: 5.00 EUR succeeded order-99\n');
    expect(stdout).toContain(`Only in Idempay (1)\n`);
    expect(stdout).toContain(`  ${second.idempotencyKey} (order-2, attempt 1): 1200.00 EUR COMPLETED`);
    expect(stdout).toMatch(/line 4: 7\.25 EUR succeeded [-0-9a-f]+; compared was line 3\n/);
    expect(stdout).toMatch(/^Refunds, only at the processor +1 +- +5\.00 EUR$/m);
    expect(stdout).not.toMatch(/with us|with the processor/);

    const rows: Record<string, string>[] = parse(readFileSync(file), { columns: true, bom: true });
    expect(rows.map((row) => [row.difference, row['statement line']]).toSorted()).toEqual([
      ['Different', '2'],
      ['Only at the processor', '5'],
      ['Only in Idempay', ''],
      ['Refunds, only at the processor', '6'],
      ['Twice on the statement', '4'],
    ]);
    expect(readdirSync(folder).toSorted()).toEqual(['differences.csv', 'statement.csv']);
    const again = await reconcile(lines, '--differences', file);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is there already')]);
  });

  it('a line that cannot be read is named and ends with 14, and with 13 alongside a difference', async () => {
    const wrong = withLine(1, (line) => [line.replace('100.50', 'much')]);
    const { code, stdout } = await reconcile(wrong);
    expect(code).toBe(14);
    expect(stdout).toContain('No difference was found, but 1 line could not be read.\n');
    expect(stdout).toMatch(/^On a line that could not be read +1 +100\.50 EUR +-$/m);
    expect(stdout).toContain('  line 2: The amount “much” is no decimal number such as 100.50.\n');
    expect(await reconcileAsJson(wrong)).toMatchObject({
      code: 14,
      agreed: false,
      lines: { read: 2, refused: 1, skipped: 1 },
      differences: [{ kind: 'unread', line: 2, statement: null, payment: { reference: 'order-1' } }],
      problems: [{ line: 2, problem: 'The amount “much” is no decimal number such as 100.50.' }],
    });
    expect(await reconcileAsJson([...wrong, 'order-99,5.00,EUR,succeeded'])).toMatchObject({ code: 13, agreed: false });
  });

  it.each([
    ['a workbook', Buffer.from('PK\u0003\u0004\u0014\u0000\u0006\u0000'), /save its sheet as “CSV UTF-8”/],
    ['an empty file', Buffer.from(''), /The file is empty/],
    ['text of another alphabet', Buffer.from([0x61, 0x2c, 0xff, 0xfe, 0x0a]), /not text in UTF-8/],
    ['a JSON array', Buffer.from('[{"amount":"1"}]'), /one JSON object for each line/],
    ['a text', Buffer.from('Dear customer\n'), /no names of columns/],
    ['columns that nobody knows', Buffer.from('a,b\n1,2\n'), /--column MEMBER=NAME.*“a”, “b”/],
    ['no column of the currency', Buffer.from('reference,amount\n1,2\n'), /--currency/],
  ])('%s is no statement: its sentence is on standard error, and the code is 14', async (_what, bytes, sentence) => {
    const differences = join(folder, 'differences.csv');
    const { code, stdout, stderr } = await reconcile(bytes, '--differences', differences);
    expect([code, stdout, stderr]).toEqual([14, '', expect.stringMatching(sentence)]);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(readdirSync(folder)).toEqual(['statement.csv']);
    const asJson = await reconcile(bytes, '--json');
    expect([asJson.code, JSON.parse(asJson.stderr)]).toEqual([14, expect.objectContaining({ error: 'unreadable' })]);
  });

  it('a file that turns out to be no text after its first lines ends with 14 and leaves no file of differences', async () => {
    const lines = Buffer.from(`${HEADER}\n${'order-1,1.00,EUR,succeeded\n'.repeat(20_000)}`);
    const differences = join(folder, 'differences.csv');
    const { code, stderr } = await reconcile(Buffer.concat([lines, Buffer.from([0xff])]), '--differences', differences);
    expect([code, stderr]).toEqual([14, expect.stringContaining('not text in UTF-8')]);
    expect(readdirSync(folder)).toEqual(['statement.csv']);
  });

  it('a bank writes semicolons, decimal commas and lines before its header, which are said', async () => {
    const rows = paid.map(({ idempotencyKey, amount }) => `${idempotencyKey};${amount.replace('.', ',')}`);
    const { code, stderr, stdout } = await reconcile(
      ['Konto;DE00 1234', '', 'Kundenreferenz;Betrag', ...rows],
      ...['--column', 'reference=kundenreferenz', '--currency', 'eur', '--decimal-mark', ',', '--delimiter', ';'],
    );
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining('Line 3 has the names of the columns; the 2 lines before it are skipped.\n'),
    ]);
    expect(stdout).toContain(
      'Columns: reference “Kundenreferenz”, amount “Betrag”, currency EUR where a line has none.',
    );
  });

  it('a line that has the order number is matched by it', async () => {
    const rows = paid.map(({ reference, amount }) => `${reference},${amount},EUR`);
    expect((await reconcile(['order number,amount,currency', ...rows])).code).toBe(0);
    expect((await reconcile(['What,amount,currency', ...rows], '--column', 'order=What')).code).toBe(0);
    const more = await reconcileAsJson(['order number,amount,currency', ...rows.slice(1)]);
    expect([more.code, more.differences.length, more.differences[0].payment.reference]).toEqual([13, 1, 'order-1']);
  });

  describe('with refunds', () => {
    const PATH = '/api/refund?reference=order-2';
    let refunds: readonly Pick<Paid, 'idempotencyKey' | 'transactionId' | 'amount'>[];
    /** The command's own service, because every other test of the day counts its payments. */
    const refunded = shareProcessedService(embedded);
    const run = (...parameters: string[]) => runCommandHere(refunded().url, ['payments', 'reconcile', ...parameters]);
    let refundDay: string;

    beforeAll(async () => {
      const { url } = refunded();
      for (const [index, amount] of AMOUNTS.entries()) {
        await payOrder(url, { reference: `order-${index + 1}`, amount, currency: 'EUR' });
      }
      for (const [name, amount] of [
        ['line-1', '400.00'],
        ['line-2', '150.25'],
      ]) {
        const answer = await ask(`${url}${PATH}&refund=${name}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ amount, currency: 'EUR' }),
        });
        expect(answer.status, answer.text).toBe(200);
      }
      const { json } = await ask(`${url}/api/payments?kind=refund`);
      refunds = json();
      refundDay = json<readonly { settledAt: string }[]>()[0]?.settledAt.slice(0, '2026-11-20'.length) ?? '';
    });

    const statementOf = (lines: readonly string[]) => {
      const file = join(folder, 'statement.csv');
      writeFileSync(file, `${lines.join('\n')}\n`);
      return file;
    };
    const charges = AMOUNTS.map((amount, index) => `order-${index + 1},${amount},EUR,charge`);

    it("the processor's own log agrees, with its refunds", async () => {
      const { code, stdout } = await run(refunded().processor.chargeLog, '--day', refundDay, '--json');
      expect([code, JSON.parse(stdout)]).toMatchObject([
        0,
        {
          ...{ agreed: true, payments: 3, refunds: 2, refundsFoundByPayment: 0 },
          groups: {
            matched: { count: 3, processor: [{ currency: 'EUR', amount: '1307.75' }] },
            refundMatched: {
              count: 2,
              idempay: [{ currency: 'EUR', amount: '550.25' }],
              processor: [{ currency: 'EUR', amount: '550.25' }],
            },
          },
        },
      ]);
    });

    it('an export of ours agrees, as CSV, for a spreadsheet and as JSON, and so does one of an earlier version', async () => {
      const exportBy = async (...parameters: string[]) => {
        const command = ['payments', 'export', '--day', refundDay, '--kind', 'all', '--format', ...parameters];
        const { code, stdout } = await runCommandHere(refunded().url, command);
        expect(code).toBe(0);
        return stdout;
      };
      const csv = await exportBy('csv');
      const rows: string[][] = parse(csv);
      const [header = []] = rows;
      const earlier = rows.map((row) => row.slice(0, header.indexOf('client') + 1).join(','));
      const agreed = { agreed: true, payments: 3, refunds: 2, refundsFoundByPayment: 0 };
      for (const text of [csv, await exportBy('csv', '--spreadsheet'), await exportBy('ndjson'), earlier.join('\n')]) {
        const { code, stdout } = await run(statementOf([text.trimEnd()]), '--day', refundDay, '--json');
        expect([code, JSON.parse(stdout)], text).toMatchObject([0, agreed]);
      }
      const unknown = csv.replaceAll(refunds[0]?.idempotencyKey ?? '', 'f8d3a85b-a334-8d5b-a913-4d806ec39cb2');
      const moved = unknown.replaceAll(refunds[0]?.transactionId ?? '', 'TXN1');
      const { code, stdout } = await run(statementOf([moved.trimEnd()]), '--day', refundDay, '--json');
      expect([code, JSON.parse(stdout).groups]).toMatchObject([
        13,
        { refundOnlyInIdempay: { count: 1 }, refundOnlyAtProcessor: { count: 1 }, onlyAtProcessor: { count: 0 } },
      ]);
    });

    it('a statement that names only the order is compared by amounts, which the result says', async () => {
      const lines = [
        'order,amount,currency,type',
        ...charges,
        'order-2,-150.25,EUR,refund',
        'order-2,-400.00,EUR,refund',
      ];
      const { code, stdout } = await run(statementOf(lines), '--day', refundDay);
      expect(code).toBe(0);
      expect(stdout).toContain(
        'with those that were declined: 3. Refunds: 2. Found by payment and amount, because their lines name no refund: 2.\n',
      );
      expect(stdout).toMatch(/^Refunds, the same on both sides +2 +550\.25 EUR +550\.25 EUR$/m);
    });

    it('a refund whose payment is of another day is found by the order number of this payment', async () => {
      const { url } = refunded();
      const looked: string[] = [];
      // Nothing here can wait for a day, so a proxy takes the payments out of the export.
      const proxy = createServer(async (request, response) => {
        const answer = await fetch(url + request.url);
        const text = await answer.text();
        const isExport = request.url?.startsWith('/api/payments/export') === true;
        if (!isExport) looked.push(request.url ?? '');
        const kept = text.split('\n').filter((line) => line.includes('"refund":{'));
        const whole = [...kept, JSON.stringify({ end: true, count: kept.length, sums: {}, refundSums: {} }), ''];
        response.writeHead(answer.status, {
          'content-type': answer.headers.get('content-type') ?? '',
          idempay: answer.headers.get('idempay') ?? '',
        });
        response.end(isExport ? whole.join('\n') : text);
      }).listen(0, '127.0.0.1');
      await once(proxy, 'listening');
      try {
        const lines = ['order,amount,currency,type', 'order-2,-150.25,EUR,refund', 'order-2,-400.00,EUR,refund'];
        const { port } = proxy.address() as AddressInfo;
        const parameters = ['payments', 'reconcile', statementOf(lines), '--day', refundDay, '--json'];
        const { code, stdout, stderr } = await runCommandHere(`http://127.0.0.1:${port}`, parameters);
        expect([code, stderr]).toEqual([0, expect.not.stringContaining('Error')]);
        expect(JSON.parse(stdout)).toMatchObject({ payments: 0, refunds: 2, groups: { refundMatched: { count: 2 } } });
        expect(looked).toHaveLength(1);
      } finally {
        proxy.closeAllConnections();
        proxy.close();
      }
    });

    it('a refund of one side only, and another amount, are differences', async () => {
      const lines = [
        'order,refund,amount,currency,type',
        ...charges.map((line) => line.replace(',', ',,')),
        `order-2,${refunds.find(({ amount }) => amount === '400.00')?.idempotencyKey},-400.10,EUR,refund`,
        'order-1,,-7.00,EUR,refund',
      ];
      const file = statementOf(lines);
      const named = ['--day', refundDay, '--column', 'refund=refund'];
      const { code, stdout } = await run(file, ...named);
      expect(code).toBe(13);
      expect(stdout).toContain('Refunds, different (1)\n');
      expect(stdout).toMatch(/\(refund line-1 of [-0-9a-f]+\): amount; in Idempay 400\.00 EUR COMPLETED/);
      expect(stdout).toContain('Refunds, only at the processor (1)\n');
      expect(stdout).toContain('  line 6: -7.00 EUR order-1\n');
      expect(stdout).toContain('Refunds, only in Idempay (1)\n');
      const json = JSON.parse((await run(file, ...named, '--json')).stdout);
      expect(json.differences).toMatchObject([
        { kind: 'refundDifferent', differs: ['amount'], payment: { refund: { name: 'line-1' } } },
        { kind: 'refundOnlyAtProcessor', line: 6, payment: null },
        { kind: 'refundOnlyInIdempay', payment: { amount: '150.25', refund: { name: 'line-2' } } },
      ]);
    });
  });

  it('credits and debits that are named replace the amount, and a named column is nothing else', async () => {
    const rows = paid.map(({ idempotencyKey, amount }) => `${idempotencyKey},wrong,${amount},,EUR`);
    const header = 'amount,reference,in,out,currency';
    const parameters = ['--column', 'credit=in', '--column', 'debit=out', '--column', 'reference=amount'];
    expect((await reconcile([header, ...rows], ...parameters)).code).toBe(0);
  });

  it('a processor that has no payments leaves the whole statement at the processor', async () => {
    const other = await reconcileAsJson(agreedLines(), '--processor', 'another');
    expect(other).toMatchObject({
      code: 13,
      processor: 'another',
      payments: 0,
      groups: { onlyAtProcessor: { count: 3 } },
    });
  });

  it.each([
    ['a day that does not exist', ['--day', '2026-02-30'], /--day takes a day/],
    ['a day that is none', ['--day', 'yesterday'], /--day takes a day/],
    ['a delimiter of two characters', ['--delimiter', ';;'], /--delimiter takes one of/],
    ['a currency that is none', ['--currency', 'euro'], /--currency takes a code of three letters/],
    ['a mark that is none', ['--decimal-mark', ';'], /Allowed choices are \., ,/],
    ['a member that is none', ['--column', 'total=amount'], /--column takes MEMBER=NAME.*reference, order/],
    ['a column without a member', ['--column', 'amount'], /--column takes MEMBER=NAME/],
    ['a member twice', ['--column', 'type=a', '--column', 'type=b'], /has type twice/],
    ['an amount in one column and in two', ['--column', 'amount=a', '--column', 'debit=b'], /not both/],
    ['a column that is not there', ['--column', 'amount=Gross'], /has no column “Gross”.*“reference”, “amount”/],
    ['a delimiter of JSON', ['--delimiter', ';'], /no --delimiter/, ['{"reference":"1"}']],
    ['a column that stands twice', ['--column', 'type=a'], /several columns “a”/, ['reference,amount,currency,a,a']],
    ['a folder', ['.'], /EISDIR/],
    ['no day', [], /--day/],
  ])('%s ends with 1 and one sentence', async (what, parameters, sentence, lines = agreedLines()) => {
    const file = join(folder, 'statement.csv');
    writeFileSync(file, `${lines.join('\n')}\n`);
    const own = what === 'a folder' ? [folder] : [file];
    const ofTheDay = what.includes('day') ? [] : ['--day', day];
    const given = what === 'a folder' ? [] : parameters;
    const { code, stdout, stderr } = await idempay('payments', 'reconcile', ...own, ...ofTheDay, ...given);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(sentence)]);
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('a file that is not there ends with 1, and a service that is down with 5', async () => {
    const missing = await idempay('payments', 'reconcile', join(folder, 'none.csv'), '--day', day);
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('cannot be read (ENOENT)')]);
    const file = join(folder, 'statement.csv');
    writeFileSync(file, `${HEADER}\n`);
    const differences = join(folder, 'differences.csv');
    const parameters = ['payments', 'reconcile', file, '--day', day, '--deadline', '1', '--differences', differences];
    expect((await runCommandHere('http://127.0.0.1:1', parameters)).code).toBe(5);
    expect(readdirSync(folder)).toEqual(['statement.csv']);
  });

  it('interrupted while it waits for its statement, it ends and leaves no file of differences', async () => {
    const differences = join(folder, 'differences.csv');
    const parameters = ['payments', 'reconcile', '-', '--day', day, '--differences', differences];
    // A pipe whose writer has not ended.
    const launcher = 'mkfifo "$0.pipe"; { cat "$0"; exec sleep 20; } > "$0.pipe" 2>&- & exec "$@" < "$0.pipe"';
    const waiting = startCommand(shared().url, parameters, {}, ['sh', '-c', launcher, bigStatement()]);
    await until('it has begun', 10_000, () => readdirSync(folder).some((name) => name.endsWith('.part')));
    waiting.interrupt();
    const { code, stderr } = await waiting.result;
    expect([code, stderr]).toEqual([1, expect.stringContaining('Interrupted: nothing was compared.')]);
    expect(readdirSync(folder).toSorted()).toEqual(['statement.csv', 'statement.csv.pipe']);
  });

  /** Longer than what is read before the comparison. */
  function bigStatement(): string {
    const file = join(folder, 'statement.csv');
    writeFileSync(file, `${HEADER}\n${'order-1,1.00,EUR,succeeded\n'.repeat(20_000)}`);
    return file;
  }

  it('where standard output is full, it ends with 12', async () => {
    const file = join(folder, 'statement.csv');
    writeFileSync(file, `${agreedLines().join('\n')}\n`);
    const full = await runCommand(shared().url, ['payments', 'reconcile', file, '--day', day], {}, FULL_OUTPUT);
    expect(full.code).toBe(12);
  });

  it('lists the first 1,000 differences of a kind as JSON, and all of them in the file', async () => {
    const rows = Array.from({ length: 1_500 }, (_, index) => {
      const digits = createHash('sha256').update(String(index)).digest('hex').slice(0, 12);
      return `0190f3a2-0000-7000-8000-${digits},1.00,EUR,succeeded`;
    });
    const file = join(folder, 'differences.csv');
    const result = await reconcileAsJson([...agreedLines(), ...rows], '--differences', file);
    expect([result.code, result.groups.onlyAtProcessor.count, result.differences.length]).toEqual([13, 1_500, 1_000]);
    expect(parse(readFileSync(file), { columns: true, bom: true })).toHaveLength(1_500);
  });
});

describe('generated statements', () => {
  const SEED = 33;
  const STATEMENTS = casesOf(2_000);
  const LINE_END = /\r\n|\n|\r/;
  const KEY = '0190a000-0000-7000-8000-000000000001';
  const PAYMENTS: readonly SettledPayment[] = [
    { idempotencyKey: KEY, reference: 'order-1', attempt: 1, state: 'COMPLETED', amount: '100.50', currency: 'EUR' },
    {
      idempotencyKey: KEY.replace(/1$/, '2'),
      reference: null,
      attempt: null,
      state: 'DECLINED',
      amount: '7',
      currency: 'JPY',
    },
  ].map(
    (payment, index) =>
      ({ ...payment, transactionId: `TXN${index}`, claimedAt: null, settledAt: null }) as SettledPayment,
  );
  /** Most cells could be meant; the others are what breaks readers. */
  const CELLS = [
    ...[
      KEY,
      KEY.toUpperCase(),
      'order-1',
      'order-2',
      'TXN0',
      'txn1',
      'EUR',
      'usd',
      'JPY',
      'succeeded',
      'failed',
      'Refund',
    ],
    ...[
      '100.50',
      '100,50',
      '1.000',
      '1,000.00',
      '-5',
      '(5.00)',
      '5,00-',
      '\u22125',
      '1e3',
      '0',
      '',
      ' ',
      '=1+1',
      '="order-1"',
    ],
    ...[
      '"a"',
      '"',
      '""',
      'a"b',
      '"a"b',
      '"a""b"',
      '"a\nb"',
      '"a,b;c"',
      ' "a" ',
      '\u0000',
      '\ufeff',
      '\u2028',
      '😀',
      '__proto__',
    ],
    ...["'", '\\', '`', '%', '9'.repeat(40), `0.${'0'.repeat(40)}1`, 'sep=;', '{', '[', '\t', '|'],
  ];
  const NAMES = [
    ...[
      'reference',
      'Reference',
      'order_id',
      'Transaction ID',
      'amount',
      'Betrag',
      'credit',
      'debit',
      'currency',
      'status',
    ],
    ...['type', 'note', '', '"quoted, name"', 'constructor', '__proto__', 'metadata[order_id]'],
  ];
  const ENDS = ['\n', '\r\n', '\r'];
  const PREAMBLES = ['sep=;', 'sep=,', 'Account statement', 'Account;DE00', '', ' ', '\ufeff', ',,,', '"open'];

  const several = (random: Random, most: number, make: () => string) =>
    Array.from({ length: random.below(most + 1) }, make);

  function csvOf(random: Random): string {
    const delimiter = random.pick([',', ';', '\t', '|']);
    const end = random.pick(ENDS);
    const isMixed = random.below(4) === 0;
    const names = ['reference', 'amount', 'currency', ...several(random, 4, () => random.pick(NAMES))];
    const cells = () => {
      const length = random.below(5) === 0 ? random.below(9) : names.length;
      const usual = [random.pick(['order-1', KEY, 'order-3']), random.pick(['100.50', '7', '1.000']), 'EUR'];
      return Array.from({ length }, (_, index) => (random.below(3) > 0 && usual[index]) || random.pick(CELLS));
    };
    const lines = [
      ...(random.below(4) === 0 ? several(random, 3, () => random.pick(PREAMBLES)) : []),
      (random.below(10) === 0 ? cells() : names).join(delimiter),
      ...several(random, 30, () => (random.below(15) === 0 ? random.pick(PREAMBLES) : cells().join(delimiter))),
    ];
    const text = lines.map((line) => line + (isMixed ? random.pick(ENDS) : end)).join('');
    return random.below(3) === 0 ? text.slice(0, -1) : text;
  }

  function ndjsonOf(random: Random): string {
    const value = () => random.pick([...CELLS, 1, -0.1, 1e21, null, true, [], {}, { a: [1] }]);
    const object = () =>
      JSON.stringify({
        reference: random.pick(['order-1', KEY, value()]),
        amount: random.pick(['100.50', 100.5, value()]),
        currency: random.pick(['EUR', value()]),
        [random.pick(NAMES)]: value(),
      });
    const line = () =>
      random.below(8) === 0 ? random.pick(['', '{', '[]', 'null', '{"a":', '"', ...CELLS]) : object();
    return [object(), ...several(random, 30, line)].join(random.pick(ENDS));
  }

  /** In pieces, so that characters, quotes and line ends are cut. Some have bytes that are no UTF-8, or that are cut off. */
  function piecesOf(random: Random, text: string): Uint8Array[] {
    let bytes = Buffer.from(text);
    if (random.below(30) === 0 && bytes.length > 0) bytes[random.below(bytes.length)] = 0xff;
    if (random.below(30) === 0) bytes = bytes.subarray(0, random.below(bytes.length + 1));
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = 1 + random.below(random.pick([3, 50, 5_000]));
      pieces.push(bytes.subarray(at, at + length));
      at += length;
    }
    return pieces;
  }

  function optionsFor(random: Random): StatementOptions {
    const sometimes = <Value>(...values: Value[]) => (random.below(5) === 0 ? random.pick(values) : undefined);
    return {
      delimiter: sometimes(',', ';', '\\t', '|', ':'),
      currency: sometimes('EUR', 'jpy', 'euro'),
      decimalMark: sometimes('.', ','),
      column: sometimes(
        ['amount=amount'],
        ['type=NOTE', 'order=reference'],
        ['credit=credit'],
        ['order=nobody'],
        ['x=y'],
      ),
    };
  }

  async function* paymentsOf(day: number) {
    if (day === 0) yield PAYMENTS;
  }

  async function endOf(pieces: readonly Uint8Array[], options: StatementOptions) {
    async function* bytes() {
      yield* pieces;
    }
    const file = await openStatement(bytes(), settingsOf(options));
    let rows = '';
    const result = await reconcile(file, { paymentsOf, namesOf: async () => undefined }, (difference) => {
      rows += differenceCsvLine(difference);
    });
    const compared = { day: '2026-11-24', processor: undefined, file, result };
    return { result, printed: [rows, textOf(compared), JSON.stringify(jsonOf(compared))] };
  }

  /** Every line that was read is in one of these groups, and every payment of the day in one of the others. */
  const AT_THE_PROCESSOR = [
    'matched',
    'different',
    'theirs',
    'theirsDeclined',
    'duplicate',
    'refundTheirs',
    'chargeback',
    'fee',
    'other',
  ] as const;
  const IN_IDEMPAY = ['matched', 'different', 'ours', 'unread', 'unlisted'] as const;
  const countOf = ({ groups }: Reconciliation, names: readonly (keyof Reconciliation['groups'])[]) =>
    names.reduce((sum, name) => sum + groups[name].count, 0);
  const linesIn = (pieces: readonly Uint8Array[]) => {
    const lines = Buffer.concat(pieces).toString().split(LINE_END);
    return lines.at(-1) === '' ? lines.length - 1 : lines.length;
  };

  /** How it ended: an exit code, or the name of an error whose message is for a person. Throws for everything else. */
  async function checkedEnd(random: Random): Promise<string> {
    const text = random.below(4) === 0 ? ndjsonOf(random) : csvOf(random);
    const pieces = piecesOf(random, text);
    try {
      const { result } = await endOf(pieces, optionsFor(random));
      const { read, refused, skipped } = result.lines;
      expect(read + refused + skipped, text).toBe(linesIn(pieces));
      expect(countOf(result, AT_THE_PROCESSOR), text).toBe(result.rows - result.problems.count);
      expect(countOf(result, IN_IDEMPAY), text).toBe(result.payments);
      return String(exitCodeOf(result));
    } catch (error) {
      const { name } = error as Error;
      if (['StatementError', 'UsageError'].includes(name)) return name;
      throw new Error(`This statement shows a fault: ${JSON.stringify(text)}`, { cause: error });
    }
  }

  it('end in a result that counts every line, or in a sentence', async () => {
    const ends: Record<string, number> = {};
    for (let index = 0; index < STATEMENTS; index += 1) {
      const end = await checkedEnd(seededRandom(SEED + index));
      ends[end] = (ends[end] ?? 0) + 1;
    }
    // Each way to end is there, so that the statements are neither all good nor all bad.
    expect(Object.keys(ends).toSorted()).toEqual(['0', '13', '14', 'StatementError', 'UsageError']);
  });
});
