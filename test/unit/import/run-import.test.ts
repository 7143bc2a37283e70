import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { digestOf } from '#idempay/commands/import/batches.js';
import { newState } from '#idempay/commands/import/import.js';
import { openStateFile } from '#idempay/commands/import/import-state.js';
import { openRejectedRows } from '#idempay/commands/import/rejected-rows.js';
import { type ImportParts, runImport } from '#idempay/commands/import/run-import.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';

/** In batches of three rows. */
const READING = { format: 'csv', delimiter: ',', ignored: [], batchRows: 3 } as const;
const TARGET = { url: 'http://service', credential: '' };
/** With rejected rows in, before and after batches, and a batch of rejected rows alone. */
const INPUT = [
  'fromAccount,toAccount,amount,status',
  ...[
    'a1,b,1.50,',
    'a2,b,x,',
    'a3,b,3,PENDING',
    'a4,b,4,',
    'a5,b,5,',
    'a6,b,6,',
    'a7,b,7,',
    'a8,b',
    'a9,b,0,',
    'a10,b,-1,',
  ],
  ...['a10b,b', 'a10c,b', 'a11,b,11,', 'a12,b,12,', 'a13,b,13,', 'a14,b,14,FLAGED', 'a15,b,15,', ''],
].join('\n');
/** The service refuses a row of the third batch, which the command takes for good. */
const REFUSED_INPUT = INPUT.replace('a7,b', 'a7,REFUSED');
const CREATED = ['a1', 'a3', 'a4', 'a5', 'a6', 'a7', 'a11', 'a12', 'a13', 'a15'];
const REJECTED_LINES = [3, 9, 10, 11, 12, 13, 17];

/** Steps of a first run: a batch has two of rejected rows, two of the state and two of the send. */
const STEPS = { firstSend: 5, firstAnswer: 6, secondSend: 11, secondAnswer: 12, thirdSend: 17 } as const;

class Killed extends Error {}

/** The service's rows: the rows of each key, and all rows in the order of their creation. */
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
  /** The steps are: writing rejected rows, a save and a send, each before and after. */
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
  async function* bytes() {
    // Chunks that end anywhere.
    for (let at = 0; at < input.length; at += 7) yield Buffer.from(input.slice(at, at + 7));
  }
  const state = openStateFile(join(folder, 'state'));
  if (state.read() === undefined) state.save(newState(READING, TARGET, await digestOf(bytes())));
  const rejectedRows = openRejectedRows(join(folder, 'rejected'));
  try {
    await runImport({
      input: bytes(),
      state: { ...state, save: (next) => around(() => state.save(next)) },
      rejectedRows: {
        ...rejectedRows,
        append: (rows) => around(() => rejectedRows.append(rows)),
        complete: () => around(() => rejectedRows.complete()),
      },
      async send(rows, key) {
        reach();
        const result = await service.send(rows, key);
        reach();
        return result;
      },
      find: service.find,
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
    await run({ service });
    expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED);
    expect(service.rows[0]).toEqual({ fromAccount: 'a1', toAccount: 'b', amount: '1.5', status: 'PENDING' });
    expect(rejectedLines()).toEqual(REJECTED_LINES);
  });

  it('stops at a row that only the service refuses, and says from which line on nothing is created', async () => {
    const service = createService();
    for (const _run of [1, 2]) {
      const refused = run({ service, input: REFUSED_INPUT });
      await expect(refused).rejects.toThrow(/refuses line 8: .* the lines from 8 on/);
    }
    expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED.slice(0, 5));
  });

  it('does not treat a refusal after a kill as the result of the earlier send', async () => {
    const service = createService();
    await run({ service, input: REFUSED_INPUT, dieAtStep: STEPS.thirdSend }).catch(expectKilled);
    await expect(run({ service, input: REFUSED_INPUT })).rejects.toThrow(/--assume-not-created/);
  });

  it('killed at any step, and at any step of the run after it, does the same', async () => {
    const steps = await run({ service: createService() });
    expect(steps).toBeGreaterThan(20);
    for (let first = 1; first <= steps; first += 1) {
      for (const second of [8, undefined]) {
        rmSync(folder, { recursive: true });
        folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
        const service = createService();
        await expect(run({ service, dieAtStep: first })).rejects.toThrow(Killed);
        if (second !== undefined) await run({ service, dieAtStep: second }).catch(expectKilled);
        await run({ service });
        expect(
          service.rows.map(({ fromAccount }) => fromAccount),
          `${first}, ${second}`,
        ).toEqual(CREATED);
        expect(rejectedLines(), `${first}, ${second}`).toEqual(REJECTED_LINES);
      }
    }
  });

  it.each(['created', 'not created'] as const)(
    'does not send a batch whose key may be forgotten, unless the user says that it is %s',
    async (assumed) => {
      const service = createService();
      const dieAtStep = assumed === 'created' ? STEPS.secondAnswer : STEPS.secondSend;
      await run({ service, dieAtStep }).catch(expectKilled);
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
      rmSync(folder, { recursive: true });
      folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
      await run({ service, dieAtStep: STEPS.firstSend }).catch(expectKilled);
      await expect(run({ service, parts })).rejects.toThrow(/--assume-created or --assume-not-created/);
      expect(service.rows).toEqual([]);
      await run({ service });
      expect(service.rows.map(({ fromAccount }) => fromAccount)).toEqual(CREATED);
    }
  });

  it('uses the first batch to find out whether the service may have forgotten the second one', async () => {
    const service = createService();
    await run({ service, dieAtStep: STEPS.firstAnswer }).catch(expectKilled);
    // Before the second send: this run saves nothing for the first batch, and does not send it.
    await run({ service, dieAtStep: 7 }).catch(expectKilled);
    const before = service.rows.length;
    service.keys.clear();
    await expect(run({ service })).rejects.toThrow(/--assume-created or --assume-not-created/);
    expect(service.rows).toHaveLength(before);
  });

  it('with another credential of the same client goes on, however old the batch in doubt is', async () => {
    for (const dieAtStep of [STEPS.secondSend, STEPS.secondAnswer]) {
      rmSync(folder, { recursive: true });
      folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
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

  it('writes neither its state nor its rejected rows through a symbolic link', () => {
    for (const [name, content] of [
      ['no file', ''],
      ['of another program', 'something'],
    ] as const) {
      const other = join(folder, name);
      if (content !== '') writeFileSync(other, content);
      const link = join(folder, `link to ${name}`);
      symlinkSync(other, link);
      expect(() => openStateFile(link)).toThrow(/is a link/);
      expect(() => openRejectedRows(link)).toThrow(/is a link/);
      expect(existsSync(other) ? readFileSync(other, 'utf8') : '').toBe(content);
    }
  });

  it('overwrites no file that has other content than its rejected rows', async () => {
    const service = createService();
    await run({ service, dieAtStep: STEPS.firstSend }).catch(expectKilled);
    writeFileSync(join(folder, 'rejected'), 'of another\n');
    await expect(run({ service })).rejects.toThrow(/Move it away/);
    expect(readFileSync(join(folder, 'rejected'), 'utf8')).toBe('of another\n');
    rmSync(join(folder, 'rejected'));
    await run({ service });
    expect(rejectedLines()).toEqual(REJECTED_LINES);
  });
});

function expectKilled(error: unknown): void {
  expect(error).toBeInstanceOf(Killed);
}
