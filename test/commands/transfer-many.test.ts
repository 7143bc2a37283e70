import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, test } from 'vitest';
import { openMove } from '../../testkit/deployments/transfer-environment.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** `TRANSFER_ROWS=1000000` takes some minutes: so many payments and as many transactions. */
const ROWS = Number(process.env.TRANSFER_ROWS ?? 20_000);

/** Payments as their rows are after an ordinary end: one half by reference, one half by a generated key. */
const FILL = `
  BEGIN;
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
  INSERT INTO payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner, lease_until, expires_at,
    claimed_at, settled_at, recover_at, claimed_at_wall, settled_hour, client, reference, attempt)
  SELECT printf('01900000-%04x-7%03x-8000-%012x', i >> 16, i & 4095, i), printf('TXN%016d%06d', 1795000000000000 + i, i),
    printf('%d.%02d', i / 100 + 1, i % 100), 'EUR', lower(hex(randomblob(16))), 'processor.example/', 'COMPLETED', 1, lower(hex(randomblob(16))),
    1795000000000, 1795086400000 + i, 1795000000000 + i, 1795000000100 + i, 1795000000000, 1795000000000 + i, 1, 'shop',
    CASE i % 2 WHEN 0 THEN 'order-' || i END, CASE i % 2 WHEN 0 THEN 1 END
  FROM n;
  UPDATE deployment SET processors = '["processor.example/"]';
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
  INSERT INTO transactions (id, from_account, to_account, amount, status, version, created_at)
  SELECT 100000000000000 + i, 'account-' || i % 1000, 'account-' || (i % 1000 + 1), i * 100, 'COMPLETED', 1, 1795000000000 + i FROM n;
  UPDATE transaction_list SET last_id = 100000000000000 + ${ROWS}, version = ${ROWS};
  UPDATE last_commit SET number = number + 1;
  COMMIT`;

test(`${ROWS} payments and as many transactions move`, WITHOUT_LIMIT, async () => {
  const moved = await openMove();
  const database = new DatabaseSync(join(moved.folder, 'idempay.sqlite'));
  database.exec(FILL);
  database.close();
  const startedAt = performance.now();
  expect(await moved.run()).toMatchObject({ code: 0, stderr: '' });
  console.log(`${ROWS} payments and ${ROWS} transactions in ${Math.round((performance.now() - startedAt) / 1_000)} s`);
  const [counted] = await moved.stores.sql('SELECT count(*)::integer AS payments FROM idempay.payments');
  expect(counted).toEqual({ payments: ROWS });
});
