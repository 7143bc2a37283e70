import { afterEach, beforeEach, expect, test } from 'vitest';
import { Postgres } from '#idempay/deployments/distributed/postgres/postgres.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

/** As in `postgres.ts`, and a busy machine. */
const CONNECT_LIMIT_MS = 3_000;
const SLACK_MS = 2_000;
const ONE = { name: 'one', text: 'SELECT 1 AS one' };

let stored: Awaited<ReturnType<typeof createSharedDatabase>>;
beforeEach(async () => {
  stored = await createSharedDatabase();
});
afterEach(() => stored.drop());

/**
 * Bug: a request that found no free connection waited for the checks of a new one, however long those took. Cause: the
 * pool's own limit ends when the server has taken the connection. Fix: one limit over everything before the statement.
 */
test('a new connection that cannot be checked in time costs a bounded wait, and serves the next who asks', async () => {
  let letGo = () => {};
  const checked = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const database = new Postgres(
    stored.url,
    1,
    () => {},
    () => checked,
  );
  const askedAt = performance.now();
  await expect(database.write(ONE)).rejects.toMatchObject({ name: 'StoreUnavailable', effect: 'unchanged' });
  expect(performance.now() - askedAt).toBeLessThan(CONNECT_LIMIT_MS + SLACK_MS);
  letGo();
  expect(await database.read(ONE)).toEqual([{ one: 1 }]);
  await database.close();
});
