import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { Idempay } from '@idempay/client';
import { expect } from 'vitest';
import { type CommandResult, startCommand } from '../processes/command.js';
import { seededRandom, seedFrom } from '../random.js';
import { until } from '../time/until.js';

const FIRST_ID = 100_000_000_000_001;
/** One in this number of rows is broken, in a way of its own. */
const BROKEN_EVERY = 97;
const BROKEN = ['x,y', '"x,y,1,', 'x,y,1e3,', 'x,x,1,', 'x,y,1,DONE'];
const REJECTED_EXIT = 9;
const LONGEST_MS = 600_000;

const isBroken = (row: number) => row % BROKEN_EVERY === BROKEN_EVERY - 1;
const goodRows = (rows: number) => rows - Math.floor(rows / BROKEN_EVERY);

interface KilledImport {
  readonly rows: number;
  readonly kills: number;
  readonly more?: readonly string[];
  /** A change to the service before each kill. */
  readonly disturb?: () => Promise<void>;
}

/** Writes a file with this number of rows, imports it, and kills the command each time when it has come a random part further. */
export async function importAndKill(
  url: string,
  file: string,
  { rows, kills, more = [], disturb }: KilledImport,
): Promise<void> {
  await writeRows(file, rows);
  const { transactions } = new Idempay({ baseUrl: url });
  const isCreated = (id: number) =>
    transactions.get(id).then(
      () => true,
      () => false,
    );
  const { fraction } = seededRandom(seedFrom('IMPORT_SEED', 1));
  for (let kill = 1; kill <= kills; kill += 1) {
    const after = (goodRows(rows) * (kill - 1 + fraction())) / (kills + 1);
    const running = startCommand(url, ['transactions', 'import', file, ...more]);
    let ended: CommandResult | undefined;
    running.result.then((result) => {
      ended = result;
    });
    await until(`row ${Math.floor(after)} is created`, LONGEST_MS, async () => {
      return ended !== undefined || isCreated(FIRST_ID + Math.floor(after));
    });
    await disturb?.();
    running.kill();
    expect(await running.result, `kill ${kill}`).toMatchObject({ signal: 'SIGKILL' });
  }
  const last = await startCommand(url, ['transactions', 'import', file, ...more, '--json']).result;
  expect(last, last.stderr).toMatchObject({ code: REJECTED_EXIT });
  expect(JSON.parse(last.stdout)).toMatchObject({ created: goodRows(rows), rejected: rows - goodRows(rows) });
}

/** Every good row is there once, in the order of the file, and every broken one is in the file of the rejected ones, once. */
export async function expectImported(url: string, file: string, rows: number): Promise<void> {
  let row = 0;
  for await (const { fromAccount, amount } of new Idempay({ baseUrl: url }).transactions.list()) {
    while (isBroken(row)) row += 1;
    expect([fromAccount, amount]).toEqual([`account ${row}`, amountOf(row)]);
    row += 1;
  }
  while (isBroken(row)) row += 1;
  expect(row).toBe(rows);
  const rejected = readFileSync(`${file}.rejected.ndjson`, 'utf8').trimEnd().split('\n');
  // The header is line 1.
  const wanted = Array.from({ length: rows }, (_, index) => index)
    .filter(isBroken)
    .map((index) => index + 2);
  expect(rejected.map((line) => JSON.parse(line).line)).toEqual(wanted);
}

const amountOf = (row: number) => (row + 1) / 4;

async function writeRows(file: string, rows: number): Promise<void> {
  const output = createWriteStream(file);
  output.write('fromAccount,toAccount,amount,status\n');
  for (let row = 0; row < rows; row += 1) {
    const broken = BROKEN[Math.floor(row / BROKEN_EVERY) % BROKEN.length];
    const text = isBroken(row) ? `${broken}\n` : `account ${row},"the ""bank""",${amountOf(row).toFixed(2)},\n`;
    if (!output.write(text)) await once(output, 'drain');
  }
  output.end();
  await once(output, 'finish');
}
