import { expect, test } from 'vitest';
import { expectKnown, type Move, openUsedMove, type UsedMove } from '../../testkit/deployments/transfer-environment.js';
import { crashAtTransfer, TRANSFER_STEPS } from '../../testkit/processes/crash-points.js';

/**
 * The command, its way back and the first start on the target are killed before and after each of their steps (decision 0081). Whatever the
 * operator does then, one end serves, clients get the answers of before, and no order is charged twice.
 */

/** Before the first step and after each: the state before any other one is the state after the step before it. */
const each = (steps: readonly string[]) => [
  ['before', steps[0] ?? ''] as const,
  ...steps.map((step) => ['after', step] as const),
];
/** The second batch of the transactions: the first one of `copy` has the payments. */
const THIRD_BATCH = 3;

async function dieAt(move: Move, side: 'before' | 'after', step: string, parameters: readonly string[] = [], nth = 1) {
  expect(await move.run(parameters, crashAtTransfer(side, step, nth))).toMatchObject({ signal: 'SIGKILL' });
}

/** The target serves, the folder does not, and the transfer cannot be taken back. */
async function expectMoved(move: UsedMove): Promise<void> {
  await expectKnown((await move.serveTarget()).url, move.known, move.processor);
  await expect(move.serveSource()).rejects.toThrow('idempay transfer moves this deployment');
  expect((await move.run(['--cancel'])).stderr).toContain('A service has started on the target');
}

/** The folder serves, and the target does not. */
async function expectFreed(move: UsedMove): Promise<void> {
  await expectKnown((await move.serveSource()).url, move.known, move.processor);
  if (await isMade(move)) await expect(move.serveTarget()).rejects.toThrow('was given up');
}

async function isMade({ stores }: Move): Promise<boolean> {
  const [row] = await stores.sql<{ made: boolean }>("SELECT to_regclass('idempay.transfer') IS NOT NULL AS made");
  return row?.made === true;
}

test.each(each(TRANSFER_STEPS.transfer))(
  'killed %s %s, the command goes on when it is run again',
  async (side, step) => {
    const move = await openUsedMove();
    await dieAt(move, side, step);
    expect(await move.run()).toMatchObject({ code: 0, stderr: '' });
    await expectMoved(move);
  },
);

test('killed between two batches of a table, the command goes on behind the last one', async () => {
  const move = await openUsedMove(6_000);
  await dieAt(move, 'before', 'target copy', [], THIRD_BATCH);
  expect(await move.run()).toMatchObject({ code: 0, stderr: '' });
  await expectMoved(move);
});

test.each(each(TRANSFER_STEPS.transfer))('killed %s %s, the command can be taken back', async (side, step) => {
  const move = await openUsedMove();
  await dieAt(move, side, step);
  const isLeaving = !(side === 'before' && step === 'folder leave');
  // Nobody serves meanwhile.
  if (isLeaving) await expect(move.serveSource()).rejects.toThrow('idempay transfer moves this deployment');
  const cancelled = await move.run(['--cancel']);
  if (isLeaving) expect(cancelled).toMatchObject({ code: 0, stderr: '' });
  else expect(cancelled.stderr).toContain('No transfer of DATA_DIR is under way');
  await expectFreed(move);
});

test.each(each(TRANSFER_STEPS.cancel))(
  'killed %s %s, the way back goes on when it is run again',
  async (side, step) => {
    const move = await openUsedMove();
    expect((await move.run()).code).toBe(0);
    await dieAt(move, side, step, ['--cancel']);
    const isFree = side === 'after' && step === 'folder free';
    if (!isFree) {
      await expect(move.serveSource()).rejects.toThrow('idempay transfer moves this deployment');
      expect(await move.run(['--cancel'])).toMatchObject({ code: 0, stderr: '' });
    }
    await expectFreed(move);
  },
);

test.each(each(TRANSFER_STEPS.start))(
  'killed %s %s, the first start on the target can be repeated',
  async (side, step) => {
    const move = await openUsedMove();
    expect((await move.run()).code).toBe(0);
    await expect(move.startTarget(crashAtTransfer(side, step))).rejects.toThrow('SIGKILL');
    await expectMoved(move);
  },
);

test('a start and a cancel at the same time leave one end that serves', async () => {
  const move = await openUsedMove();
  expect((await move.run()).code).toBe(0);
  const [started, cancelled] = await Promise.all([
    move.startTarget().then(
      (service) => service,
      () => undefined,
    ),
    move.run(['--cancel']),
  ]);
  expect(cancelled.code === 0).toBe(started === undefined);
  if (started) {
    await started.stop();
    await expectMoved(move);
  } else await expectFreed(move);
});
