// `npm run bench -- by-key`: claims and settlements as the table of payments grows, straight on PostgreSQL, over one connection that
// keeps the plans which it made when the table was empty. Each batch is timed alone; the median counts.
//
//   BENCH_SIZES  rows, 0,10000,1000000 (10000000 takes minutes to fill)
import { CLAIM, SETTLE } from '#idempay/deployments/distributed/postgres/ledger-statements.js';
import { Postgres } from '#idempay/deployments/distributed/postgres/postgres.js';
import { startPostgres, startRedis } from './servers.mjs';
import { startServer } from './service.mjs';
import { median } from './statistics.mjs';

const BATCHES = [1, 25, 200];
const REPETITIONS = 60;
/** Rows in one statement: a statement of the pool ends after five seconds. */
const FILLED_AT_ONCE = 20_000;
const LATER_MS = 4_000_000_000_000;
const FIRST_NEW_MS = 1_900_000_000_000;

const FILL = {
  name: 'fill',
  text: `
    INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
      lease_until, recover_at, claimed_at, settled_at, expires_at, settled_hour)
    SELECT (lpad(to_hex(1600000000000 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid,
      'TXN' || 1600000000000000000000 + n, 1, 'USD', '1 USD', 'simulated', 'COMPLETED', 1, 'owner',
      now(), now(), now(), now(), now(), 1
    FROM generate_series($1::bigint, $2::bigint) AS n`,
};

const sizes = (process.env.BENCH_SIZES ?? '0,10000,1000000').split(',').map(Number);
let claimed = 0;

const [redis, postgres] = [await startRedis(), await startPostgres()];
// It migrates.
await (await startServer('dist/main.js', { REDIS_URL: redis.url, DATABASE_URL: postgres.url })).stop();
const database = new Postgres(postgres.url, 1, () => {});
try {
  console.log('| rows | batch | claim ms | settle ms | PostgreSQL us for each payment |');
  console.log('| ---- | ----- | -------- | --------- | ------------------------------ |');
  let filled = 0;
  for (const size of sizes) {
    for (; filled < size; filled += FILLED_AT_ONCE) {
      await database.write(FILL, [filled + 1, Math.min(size, filled + FILLED_AT_ONCE)]);
    }
    for (const batch of BATCHES) await measure(size, batch);
  }
} finally {
  await database.close();
  await postgres.stop();
  await redis.stop();
}

async function measure(size, batch) {
  const times = { claim: [], settle: [] };
  const before = postgres.cpuUs();
  for (let time = 0; time < REPETITIONS; time += 1) {
    const keys = Array.from({ length: batch }, newKey);
    const each = (value) => keys.map(() => value);
    times.claim.push(
      await timed(CLAIM, [
        ...[
          keys,
          keys.map((_, n) => `TXN${FIRST_NEW_MS}${claimed - n}`),
          each('100.50'),
          each('USD'),
          each('100.50 USD'),
        ],
        ...[
          each(null),
          each('simulated'),
          each('owner'),
          each(30_000),
          each(LATER_MS),
          each(null),
          each(null),
          each(null),
        ],
      ]),
    );
    const fence = [keys, each(1), each('owner')];
    times.settle.push(await timed(SETTLE, [...fence, each('COMPLETED'), each(null), each(86_400_000)]));
  }
  const cpuUs = Math.round((postgres.cpuUs() - before) / (REPETITIONS * batch));
  console.log(
    `| ${size} | ${batch} | ${median(times.claim).toFixed(2)} | ${median(times.settle).toFixed(2)} | ${cpuUs} |`,
  );
}

async function timed(statement, values) {
  const from = performance.now();
  const rows = await database.write(statement, values);
  const took = performance.now() - from;
  if (statement === SETTLE && rows.length !== values[0].length) throw new Error('a payment was not settled');
  return took;
}

/** As UUIDv7 rise. */
function newKey() {
  claimed += 1;
  const time = (FIRST_NEW_MS + claimed).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${claimed.toString(16).padStart(12, '0')}`;
}
