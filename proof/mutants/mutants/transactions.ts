// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text

import { type Mutant, mutant, mutantsOf } from '../mutant.js';

export const TRANSACTION_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('src/transactions/transactions.ts', {
    'a failed commit is repeated without a look-up': [
      'await commit(mark.writeBy).catch(async',
      'await commit(mark.writeBy).catch(() => commit(mark.writeBy)).catch(async',
    ],
    'fail open: writes when the cache cannot be marked': [
      "throw new StoreUnavailable('unchanged', 'the cache could not be marked before the change', fault);",
      'return { id, token: `no mark: ${fault}`, writeBy: undefined };',
      "throw new StoreUnavailable('unknown', 'the cache could not be updated after the change', fault);",
      'ignore();',
    ],
    'the write mark is lifted after a write of unknown outcome': [
      'if (!isUnknown(fault)) await cache.evict(mark).catch(ignore);',
      'if (!isUnknown(fault) || mark) await cache.evict(mark).catch(ignore);',
    ],
  }),
  ...mutantsOf('src/deployments/embedded/transaction-cache.ts', {
    'no write mark, in memory': [
      `      if (marked) marked.marks.add(token);
      else standing.set(id, { marks: new Set([token]), newest: undefined });
`,
      `      if (marked) marked.marks.add(token);
`,
    ],
    'the first of two concurrent writes fills the cache, in memory': ['if (marked.marks.size > 0) return;', ''],
  }),
  ...mutantsOf('src/deployments/distributed/redis/scripts/cache-mark.lua', {
    'no write mark, in Redis': [
      `redis.call('HSET', KEYS[3], 'mark:' .. ARGV[1], string.format('%.0f', now + ARGV[2]) .. ' ' .. source)
`,
      '',
    ],
    'an orphaned write mark is renewed by later writes, in Redis': [
      'if tonumber(ends) <= now then',
      'if not ends then',
    ],
  }),
  ...mutantsOf('proof/simulator/models/redis-server.ts', {
    'what has expired is there, in the modelled Redis': [
      'if (stored?.expiresAt === undefined || stored.expiresAt > this.time()) return stored;',
      'if (stored) return stored;',
    ],
  }),
  ...mutantsOf('src/deployments/distributed/redis/scripts/cache-fill.lua', {
    'fill without token, in Redis': ['if held[1] ~= ARGV[1] or held[2] ~= source then return 0 end', ''],
    'a fill is accepted with a token from before a failover, in Redis': [
      ' or held[2] ~= source then return 0',
      ' then return 0',
    ],
  }),
  ...mutantsOf('src/deployments/distributed/redis/scripts/cache-look-up.lua', {
    'entries of a replaced master are hits, in Redis': ['if entry[1] == source then', 'if entry[1] then'],
  }),
  ...mutantsOf('src/deployments/distributed/redis/scripts/cache-lift.lua', {
    'a write under the mark of a replaced master fills the cache, in Redis': [
      "mark and string.match(mark, '^%d+ (.*)$') == source and 1 or 0",
      'mark and 1 or 0',
    ],
  }),
  mutant(
    "the list's version moves outside the commit, in PostgreSQL",
    [
      'src/deployments/distributed/postgres/transaction-statements.ts',
      `, version = version + cardinality($1::text[])
`,
      `
`,
    ],
    [
      'src/deployments/distributed/postgres/transaction-store.ts',
      '    const rows = await database.write<TransactionRow>(statements.CREATE, [',
      `    const text = 'UPDATE idempay.transaction_list SET version = version + $1';
    await database.write({ name: 'next_version', text }, [transactions.length]);
    const rows = await database.write<TransactionRow>(statements.CREATE, [`,
    ],
  ),
  ...mutantsOf('src/deployments/embedded/transaction-store.ts', {
    'a list gets the version of an earlier request, in SQLite': [
      'listVersion = Math.max(listVersion, version);',
      'listVersion = Math.min(listVersion, version);',
    ],
  }),
  ...mutantsOf('src/transactions/list-tags.ts', {
    'the list tag is extended over removals': [
      'await snapshot.firstRemovedSince(known.version)',
      'Number.POSITIVE_INFINITY',
    ],
  }),
];
