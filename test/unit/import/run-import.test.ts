import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newState } from '#idempay/commands/import/import.js';
import { openStateFile } from '#idempay/commands/import/import-state.js';
import { openRejectedRows } from '#idempay/commands/import/rejected-rows.js';
import { type ImportParts, runImport } from '#idempay/commands/import/run-import.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';

const READING = { format: 'csv', delimiter: ',', ignored: [] } as const;
const TARGET = { url: 'http://service', credential: '' };
/** In batches of three: with rejected rows in, before and after them, and a batch of rejected rows alone. The service refuses two. */
const REFUSED_INPUT = [
  'fromAccount,toAccount,amount,status',
  ...[
    'a1,b,1.50,',
    'a2,b,x,',
    'a3,b,3,PENDING',
    'a4,b,4,',
    'a5,b,5,',
    'a6,REFUSED,6,',
    'a7,b,7,',
    'a8,b',
    'a9,b,0,',
    'a10,b,-1,',
  ],
  ...['a11,b,11,', 'a12,b,12,', 'a13,REFUSED,13,', 'a14,b,14,FLAGED', 'a15,b,15,', ''],
].join('\n');
/** The same without rows that only the service refuses. */
const INPUT = REFUSED_INPUT.replaceAll('REFUSED', 'b');
const CREATED_BUT_REFUSED = ['a1', 'a3', 'a4', 'a5', 'a7', 'a11', 'a12', 'a15'];
const CREATED = ['a1', 'a3', 'a4', 'a5', 'a6', 'a7', 'a11', 'a12', 'a13', 'a15'];
const REJECTED_LINES = [3, 9, 10, 11, 15];
const REFUSED_LINES = [7, 14];

class Killed extends Error {}

/** What the service keeps: the rows of each key, and all rows in the order of their creation. */
function createService() {
  const keys = new Map<string, string>();
  const rows: NewTransaction[] = [];
  return {
    rows,
    keys,
    find: (async (wanted, key) => {
      if (wanted.some(({ toAccount }) => toAccount === 'REFUSED')) return 'refused';
      const known = keys.get(key);
      if (known === undefined) return 'nothing';
      return known === JSON.stringify(wanted) ? 'these rows' : 'other rows';
    }) satisfies ImportParts['find'],
    send: (async (wanted, key) => {
      const content = JSON.stringify(wanted);
      const known = keys.get(key);
      if (known !== undefined && known !== content) throw new Error('mismatch');
      const index = wanted.findIndex(({ toAccount }) => toAccount === 'REFUSED');
      if (index >= 0) return { state: 'refused', index, reason: 'refused by the service' };
      if (known === undefined) {
        keys.set(key, content);
        rows.push(...wanted);
      }
      return { state: 'created' };
    }) satisfies ImportParts['send'],
  };
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

interface Run {
  readonly service: ReturnType<typeof createService>;
  readonly input?: string;
  /** The steps are: a save, a send, and writing rejected rows, each before and after. */
  readonly dieAtStep?: number;
  readonly parts?: Partial<ImportParts>;
}

/** One run of the command on the files in the folder. Resolves to the number of its steps. */
async function run({ service, input = INPUT, dieAtStep, parts }: Run): Promise<number> {
  let step = 0;
  const reach = () => {
    step += 1;
    if (step === dieAtStep) throw new Killed();
  };
  const around = <T>(work: () => T): T => {
    reach();
    const result = work();
    reach();
    return result;
  };
  const state = openStateFile(join(folder, 'state'));
  const start = state.read() ?? newState(READING, TARGET, join(folder, 'rejected'));
  if (state.read() === undefined) state.save(start);
  const rejectedRows = openRejectedRows(join(folder, 'rejected'), start.rejectedBytes);
  try {
    await runImport({
      async *input() {
        // Chunks that end anywhere.
        for (let at = 0; at < input.length; at += 7) yield Buffer.from(input.slice(at, at + 7));
      },
      state: { ...state, save: (next) => around(() => state.save(next)) },
      rejectedRows: { ...rejectedRows, append: (rows) => around(() => rejectedRows.append(rows)) },
      async send(rows, key) {
        reach();
        const result = await service.send(rows, key);
        reach();
        return result;
      },
      find: service.find,
      mostRows: 3,
      now: Date.now,
      target: TARGET,
      mayBeForgotten: () => false,
      assumed: undefined,
      progress() {},
      ...parts,
    });
  } finally {
    rejectedRows.close();
    state.close();
  }
  return step;
}

const rejectedLines = () =>
  existsSync(join(folder, 'rejected'))
    ? readFileSync(join(folder, 'rejected'), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).line)
    : [];

describe('an import', () => {
  it('creates every good row once, in order, and rejects the others with their lines', async () => {
    const service = createService();
    await run({ service, input: REFUSED_INPUT });
    expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED_BUT_REFUSED);
    expect(service.rows[0]).toEqual({ fromAccount: 'a1', toAccount: 'b', amount: '1.5', status: 'PENDING' });
    expect(rejectedLines()).toEqual([...REJECTED_LINES, ...REFUSED_LINES].sort((a, b) => a - b));
  });

  it('does not treat a refusal after a kill as the result of the earlier send', async () => {
    const service = createService();
    // The eighth step is before the send of the batch with the first row that is refused.
    await run({ service, input: REFUSED_INPUT, dieAtStep: 8 }).catch(expectKilled);
    await expect(run({ service, input: REFUSED_INPUT })).rejects.toThrow(/--assume-not-created/);
    await run({ service, input: REFUSED_INPUT, parts: { assumed: 'not created' } });
    expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED_BUT_REFUSED);
  });

  it('killed at any step, and at any step of the run after it, does the same', async () => {
    const steps = await run({ service: createService() });
    expect(steps).toBeGreaterThan(20);
    for (let first = 1; first <= steps; first += 1) {
      for (const second of [2, 5, undefined]) {
        rmSync(folder, { recursive: true });
        folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
        const service = createService();
        await expect(run({ service, dieAtStep: first })).rejects.toThrow(Killed);
        // With batches of another size: what may have been sent keeps its own.
        if (second !== undefined) await run({ service, dieAtStep: second, parts: { mostRows: 2 } }).catch(expectKilled);
        await run({ service, parts: { mostRows: 4 } });
        expect(
          service.rows.map(({ fromAccount }) => fromAccount),
          `${first}, ${second}`,
        ).toEqual(CREATED);
        expect(rejectedLines(), `${first}, ${second}`).toEqual(REJECTED_LINES);
      }
    }
  });

  it('refuses to continue when imported rows have changed, and continues when later rows were corrected', async () => {
    const service = createService();
    await run({ service, dieAtStep: 8 }).catch(expectKilled);
    const created = service.rows.length;
    const changed = run({ service, input: INPUT.replace('a1,b,1.50', 'a1,b,1.51') });
    await expect(changed).rejects.toThrow(/not the same any more/);
    await expect(run({ service, input: INPUT.slice(0, 40) })).rejects.toThrow(/not the same any more/);
    expect(service.rows).toHaveLength(created);
    await run({ service, input: INPUT.replace('a14,b,14,FLAGED', 'a14,b,14,FLAGGED') });
    expect(service.rows.map(({ fromAccount }) => fromAccount)).toContain('a14');
    expect(new Set(service.rows.map(({ fromAccount }) => fromAccount)).size).toBe(service.rows.length);
  });

  it.each(['created', 'not created'] as const)(
    'does not send a batch whose key may be forgotten, unless the user says that it is %s',
    async (assumed) => {
      const service = createService();
      // The eighth step is before the send of the second batch, which has three rows.
      await run({ service, dieAtStep: assumed === 'created' ? 10 : 8 }).catch(expectKilled);
      service.keys.clear();
      await expect(run({ service })).rejects.toThrow(/--assume-created or --assume-not-created/);
      await run({ service, parts: { assumed } });
      expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED);
    },
  );

  it('whose first batch is in doubt sends it while it is young, for the same client', async () => {
    const old = { mayBeForgotten: () => true };
    const other = { target: { ...TARGET, credential: 'other' } };
    for (const parts of [old, other]) {
      const service = createService();
      rmSync(join(folder, 'state'), { force: true });
      // The third step is before the first send.
      await run({ service, dieAtStep: 3 }).catch(expectKilled);
      await expect(run({ service, parts })).rejects.toThrow(/--assume-created or --assume-not-created/);
      expect(service.rows).toEqual([]);
      await run({ service });
      expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED);
    }
  });

  it('uses the first batch to find out whether the service may have forgotten the second one', async () => {
    const service = createService();
    // After the first send; then before the second one, which an old service may have forgotten.
    await run({ service, dieAtStep: 4 }).catch(expectKilled);
    await run({ service, dieAtStep: 5 }).catch(expectKilled);
    const before = service.rows.length;
    service.keys.clear();
    await expect(run({ service })).rejects.toThrow(/--assume-created or --assume-not-created/);
    expect(service.rows).toHaveLength(before);
  });

  it('with another credential of the same client goes on, however old the batch in doubt is', async () => {
    for (const dieAtStep of [8, 10]) {
      rmSync(join(folder, 'state'), { force: true });
      const service = createService();
      await run({ service, dieAtStep }).catch(expectKilled);
      await run({ service, parts: { mayBeForgotten: () => true, target: { ...TARGET, credential: 'renewed' } } });
      expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED);
    }
  });

  it('is refused while another command holds its state file', async () => {
    const state = openStateFile(join(folder, 'state'));
    expect(() => openStateFile(join(folder, 'state'))).toThrow(/Another command imports/);
    state.close();
  });
});

function expectKilled(error: unknown): void {
  expect(error).toBeInstanceOf(Killed);
}
