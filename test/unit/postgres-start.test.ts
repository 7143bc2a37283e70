import { expect, test } from 'vitest';
import { untilPostgresIsThere } from '#idempay/deployments/distributed/postgres/postgres-start.js';

/** An exception as the driver makes it, beneath one of ours. */
function fault(code: string, message = code): Error {
  return new Error('PostgreSQL cannot be reached', { cause: Object.assign(new Error(message), { code }) });
}

/** Opens after the given faults; resolves to what was reported meanwhile. */
async function openedAfter(...faults: readonly Error[]): Promise<string[]> {
  const left = [...faults];
  const reported: string[] = [];
  await untilPostgresIsThere(
    async () => {
      const next = left.shift();
      if (next) throw next;
    },
    (sentence) => reported.push(sentence),
  );
  return reported;
}

test('a server that is away, then starting, then full is waited for, and reported once', async () => {
  expect(await openedAfter(fault('ECONNREFUSED'), fault('57P03'), fault('53300'))).toEqual([
    'DATABASE_URL: PostgreSQL cannot be reached; the start waits until it can',
  ]);
});

test('a fault that waiting cannot end is thrown at once, as a sentence that names DATABASE_URL', async () => {
  for (const code of ['28P01', '28000', '3D000', '42501', '25006', 'CERT_HAS_EXPIRED', '42P01']) {
    await expect(openedAfter(fault(code, 'said the server'))).rejects.toThrow(
      /^DATABASE_URL: PostgreSQL cannot be used: said the server\. [A-Z]/,
    );
  }
});
