import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { scrape } from '../../testkit/client/metrics.js';
import { embedded, manageStores } from '../../testkit/deployments/deployments.js';
import { runSql, startPostgres } from '../../testkit/servers/postgres.js';
import { startRedis } from '../../testkit/servers/redis.js';
import { startWebhookReceiver, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const PAYMENTS = 10;
const DEADLINE_MS = 60_000;
/** Claim and settlement: the processor takes a moment. */
const SETTINGS = { PROCESSOR_DELAY_MS: '1' };
const WRITES_OF_A_PAYMENT = 2;
/** Each process looks again and again if its last commits are still there. */
const LOOKS = ['missing_commits'];
const OF_FEED = /webhook_|settlement_incarnations|pg_locks/;

/** The settings without endpoints, and with an empty file of them. */
async function settingsWithout() {
  const file = await writeEndpointFile([]);
  onTestFinished(file.remove);
  return [SETTINGS, { ...SETTINGS, WEBHOOKS_FILE: file.path }];
}

async function settingsWithEndpoint() {
  const receiver = await startWebhookReceiver();
  onTestFinished(() => receiver.close());
  const file = await writeEndpointFile([receiver.endpoint]);
  onTestFinished(file.remove);
  return { receiver, settings: { ...SETTINGS, WEBHOOKS_FILE: file.path } };
}

async function payInTurn(url: string): Promise<readonly string[]> {
  const keys = await Promise.all(Array.from({ length: PAYMENTS }, () => generateKey(url)));
  for (const key of keys) expect((await pay(url, key)).status).toBe(200);
  return keys;
}

describe('PostgreSQL, by its own log of statements', async () => {
  const log = ['logging_collector=on', 'log_directory=log', 'log_filename=statements', 'log_rotation_size=0'];
  const [postgres, redis] = await Promise.all([
    startPostgres([...log, 'log_rotation_age=0', 'log_statement=all', 'log_line_prefix=@@@']),
    startRedis([]),
  ]);
  const databaseUrl = await postgres.createDatabase('idempay');
  const stores = manageStores({ REDIS_URL: redis.url, DATABASE_URL: databaseUrl }, () =>
    Promise.all([postgres.close(), redis.close()]),
  );
  afterAll(() => stores.close());
  let marks = 0;

  /** The statements until now, each with its values: the server writes every one before it carries it out. */
  async function logged(): Promise<string> {
    marks += 1;
    const mark = `the end of part ${marks}`;
    await runSql(databaseUrl, `SELECT '${mark}'`);
    return until('the log of statements', DEADLINE_MS, async () => {
      const [row] = await runSql<{ text: string }>(
        postgres.url('postgres'),
        "SELECT pg_read_file('log/statements') AS text",
      );
      return row?.text.includes(mark) && row.text.slice(0, row.text.indexOf(mark));
    });
  }

  /** The statements while payments are made, and how many of each name one of these payments. */
  async function statementsOfPayments(url: string) {
    await payInTurn(url);
    const before = (await logged()).length;
    const keys = await payInTurn(url);
    const statements = (await logged()).slice(before).split('@@@LOG:');
    const counts: Record<string, number> = {};
    for (const statement of statements.filter((text) => keys.some((key) => text.includes(key)))) {
      const [, name = statement] = /^ +execute (\w+):/.exec(statement) ?? [];
      if (!LOOKS.includes(name)) counts[name] = (counts[name] ?? 0) + 1;
    }
    return { statements, counts };
  }

  test('without an endpoint no statement of the feed is sent, and with one the payments send none more', async () => {
    const wanted = { claim: PAYMENTS, settle: PAYMENTS };
    for (const settings of await settingsWithout()) {
      const { url, stop } = await stores.serve(settings);
      const { statements, counts } = await statementsOfPayments(url);
      expect(counts).toEqual(wanted);
      expect(statements.filter((text) => OF_FEED.test(text))).toEqual([]);
      await stop();
    }
    const { receiver, settings } = await settingsWithEndpoint();
    const { url } = await stores.serve(settings);
    await until('the endpoint to be served', DEADLINE_MS, async () => {
      await payInTurn(url);
      return receiver.taken.length > 0;
    });
    const { statements, counts } = await statementsOfPayments(url);
    // The feed and the endpoint name the place up to which they have read.
    const ofPayments = Object.entries(counts).filter(([name]) => !/endpoint|settlements_/.test(name));
    expect(Object.fromEntries(ofPayments)).toEqual(wanted);
    expect(statements.some((text) => OF_FEED.test(text))).toBe(true);
  });
});

describe('SQLite, by the operations of its writer', () => {
  async function writes(url: string): Promise<number> {
    const samples = (await scrape(url)).filter(
      ({ name, labels }) => name === 'idempay_store_batch_size_sum' && labels.store === 'sqlite',
    );
    return samples.reduce((sum, { value }) => sum + value, 0);
  }

  test('without an endpoint the writes of a payment are its claim and its settlement', async () => {
    for (const settings of await settingsWithout()) {
      const stores = await embedded.open();
      onTestFinished(() => stores.close());
      const { url } = await stores.serve(settings);
      await payInTurn(url);
      // Another operation may fall into the time of a payment: retention notes the time, for instance.
      await until('a payment with its own writes alone', DEADLINE_MS, async () => {
        const key = await generateKey(url);
        const before = await writes(url);
        expect((await pay(url, key)).status).toBe(200);
        const more = (await writes(url)) - before;
        expect(more).toBeGreaterThanOrEqual(WRITES_OF_A_PAYMENT);
        return more === WRITES_OF_A_PAYMENT;
      });
    }
  });
});
