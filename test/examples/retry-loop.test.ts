import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sharePayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import { codeBlocks } from '../../testkit/documents/code-blocks.js';
import { requirePython } from '../../testkit/processes/python.js';
import { type Gateway, type GatewayAnswer, ownJson, ownPage, startGateway } from '../../testkit/servers/gateway.js';
import { until } from '../../testkit/time/until.js';

const run = promisify(execFile);
const PAGE = 'docs/reference/api.md';
const MOST_LINES = 25;

/** The program of the page that pays, with the addresses of `url`. */
function program(language: string, url: string): string {
  const block = codeBlocks(PAGE).find(({ language: each, text }) => each === language && /\bpay\(/.test(text));
  const text = `${block?.text}`;
  expect(text.trim().split('\n').length).toBeLessThanOrEqual(MOST_LINES);
  const { port } = new URL(url);
  return text.replace('"127.0.0.1", 8080', `"127.0.0.1", ${port}`).replace('127.0.0.1:8080', `127.0.0.1:${port}`);
}

type Answer = readonly [status: number, body: unknown, reason: string | null] | null;
type Arguments = readonly string[];

const inPython = async (folder: string, parameters: Arguments): Promise<Answer> =>
  JSON.parse((await run('python3', ['pay.py', ...parameters], { cwd: folder })).stdout);

/** The exit code says how it ended, as the page promises. */
async function inShell(folder: string, parameters: Arguments): Promise<Answer> {
  const paying = run('bash', ['-c', '. ./pay.sh; pay "$@"', 'pay', ...parameters], { cwd: folder });
  const { code, stdout } = await paying.then(
    (ended) => ({ code: 0, ...ended }),
    (fault) => fault as { code: number; stdout: string },
  );
  if (code === 75) return null;
  const [, status, reason = null, body = ''] = /^(\d{3}) (?:([a-z-]+) )?(.*)\n$/s.exec(stdout) ?? [];
  expect(code).toBe(status === '200' ? 0 : 1);
  return [Number(status), JSON.parse(body), reason];
}

describe.each([
  ['python', 'pay.py', inPython],
  ['sh', 'pay.sh', inShell],
] as const)(`the retry loop of ${PAGE} in %s`, (language, file, start) => {
  const environment = sharePayerEnvironment();
  let gateway: Gateway;

  beforeAll(async () => {
    await requirePython();
    gateway = await startGateway(environment.url);
    await writeFile(join(environment.folder, file), program(language, gateway.url));
  });
  afterAll(async () => {
    await gateway?.close();
  });
  beforeEach(async () => {
    gateway.use((_request, forward) => forward());
  });

  /** The gateway passes each request on, and answers with these, one after the other, in place of what it gets. */
  function answerInstead(answers: GatewayAnswer[]): void {
    gateway.use(async (_request, forward) => {
      const answer = await forward();
      return answers.shift() ?? answer;
    });
  }

  /** In a process of its own. */
  const pay = (order: string, attempt = 1) =>
    start(environment.folder, [`order-${order}`, '24.90', 'EUR', ...(attempt === 1 ? [] : [`${attempt}`])]);
  const paid = [200, expect.stringMatching(/TXN\d+$/), null];

  test('charges an order once, from three processes at once, and again later', async () => {
    await environment.behave({ latencyMs: 300 });
    for (const answer of await Promise.all([pay('1'), pay('1'), pay('1')])) expect(answer).toEqual(paid);
    expect(await pay('1')).toEqual(paid);
    expect(await environment.newCharges()).toMatchObject([{ amount: '24.90', currency: 'EUR', status: 'succeeded' }]);
  });

  test('charges once where a gateway answers by itself, and where Idempay is killed', async () => {
    const own = [ownPage(200), ownJson(400), ownPage(502)];
    answerInstead(own);
    expect(await pay('2')).toEqual(paid);
    expect(own).toEqual([]);
    expect(await environment.newCharges()).toHaveLength(1);

    gateway.use((_request, forward) => forward());
    await environment.behave({ latencyMs: 300, replyLatencyMs: 300 });
    const answer = pay('3');
    await until('the charge', 10_000, async () => (await environment.newCharges()).length > 1);
    await environment.killService();
    await environment.startService();
    // It may have given up before the service has taken the payment over.
    expect((await answer) ?? (await pay('3'))).toEqual(paid);
    expect(await environment.newCharges()).toHaveLength(2);
  });

  test('takes no answer for clear whose body is cut or another one, though its header is left, and no odd Retry-After for a time', async () => {
    const idempay = { idempay: '1' };
    const spoilt = [
      { status: 200, headers: idempay, text: '"Transaction ID: TXN17' },
      { status: 402, headers: idempay, text: '<h1>Payment Required</h1>' },
      ...['\u00b2', '08'].map((odd) => ({ status: 503, headers: { ...idempay, 'retry-after': odd }, text: '"busy"' })),
    ];
    answerInstead(spoilt);
    expect(await pay('8')).toEqual(paid);
    expect(spoilt).toEqual([]);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('charges again after a decline only with the next attempt', async () => {
    await environment.behave({ declineRate: 1 });
    expect(await pay('4')).toEqual([
      402,
      expect.objectContaining({ message: expect.stringContaining('declined') }),
      null,
    ]);
    await environment.behave({ declineRate: 0 });
    expect(await pay('4')).toEqual([402, expect.anything(), null]);
    expect(await pay('4', 3)).toEqual([422, expect.anything(), 'previous-absent']);
    expect(await environment.newCharges()).toHaveLength(1);
    expect(await pay('4', 2)).toEqual(paid);
    expect(await pay('4', 2)).toEqual(paid);
    expect((await environment.newCharges()).map(({ status }) => status)).toEqual(['declined', 'succeeded']);
  });

  /** Bug: the shell paid `order-` for `order-#1001`, and `order` for `order#1`. Cause: it did not encode. Fix: it encodes each byte. */
  test('encodes the reference', async () => {
    const payOrder = (reference: string) => start(environment.folder, [reference, '24.90', 'EUR']);
    for (const reference of ['order-#1001', 'order#1', 'order-9&attempt=2', 'order-%31']) {
      const refused = expect.objectContaining({ message: expect.stringMatching(/^'reference' must name one order/) });
      expect(await payOrder(reference)).toEqual([400, refused, null]);
    }
    expect(await payOrder('o/r~d:e_r@9.-9')).toEqual(paid);
    expect(await environment.newCharges()).toMatchObject([{ order: 'o/r~d:e_r@9.-9' }]);
  });

  test('sends the source of the order to the processor', async () => {
    expect(await start(environment.folder, ['order-7', '24.90', 'EUR', '1', 'tok_7'])).toEqual(paid);
    expect(await environment.newCharges()).toMatchObject([{ order: 'order-7', source: 'tok_7' }]);
  });

  test('waits as long as Retry-After says, and ends with "not known yet" when its time is over', async () => {
    const { headers, ...busy } = ownJson(503);
    const times: number[] = [];
    gateway.use(async (_request, forward) => {
      times.push(performance.now());
      const refused = { ...busy, headers: { ...headers, idempay: '1', 'retry-after': '3' } };
      return times.length === 1 ? refused : forward();
    });
    expect(await pay('5')).toEqual(paid);
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(2_900);

    gateway.use(async () => ownPage(200));
    const impatient = program(language, gateway.url).replace(/SECONDS = 60|SECONDS \+ 60/, (time) =>
      time.replace('60', '2'),
    );
    await writeFile(join(environment.folder, file), impatient);
    expect(await pay('6')).toBeNull();
  });
});
