import { changeStored } from './stored-payments.js';

/** Accounts as long as they may be, of four bytes each: a row of more than half a kilobyte. */
const FROM = '\u{1f4b3}'.repeat(64);
const TO = '\u{1f4b0}'.repeat(64);

/**
 * Puts so many transactions between two long accounts into the stores with these settings, past all service processes.
 * No service may run on the embedded one; the schema must be there, and no transaction.
 */
export async function storeTransactions(environment: Record<string, string>, count: number): Promise<void> {
  const change = (schema: string, createdAt: string, numbers: string) => `
    INSERT INTO ${schema}transactions (id, from_account, to_account, amount, status, version, created_at)
      SELECT 100000000000000 + n, '${FROM}', '${TO}', 10000, 'PENDING', 1, ${createdAt} FROM ${numbers};
    UPDATE ${schema}transaction_list SET last_id = last_id + ${count}, version = version + ${count};`;
  const numbers = `(WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    SELECT n FROM numbers)`;
  await changeStored(
    { environment },
    {
      embedded: change('', '0', numbers),
      distributed: change('idempay.', 'now()', `generate_series(1, ${count}) AS n`),
    },
  );
}
