import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { CONTROL, type Found, hunt } from './hunts.js';
import { type Hunt, MUTANTS, type Mutant } from './mutants.js';
import { Interrupted, stopAll } from './run.js';
import { Workspace } from './workspace.js';

const USAGE = `npm run mutants -- [options]
  --only TEXT   those whose name has this text (all)
  --by TEXT     those that it must notice: simulator, fault suite, contract suite (all)
  --at-once N   how many are looked for at a time (one for each processor)`;

interface Caught extends Found {
  readonly mutant: Mutant;
  readonly seconds: number;
}

/** Plants each mistake in a copy of the repository and sees who notices. Exit code 1: one was overlooked. */
async function main(): Promise<void> {
  const { only, by, atOnce } = readOptions(process.argv.slice(2));
  const mutants = MUTANTS.filter((mutant) => mutant.name.includes(only) && nameOf(mutant.hunt).includes(by));
  if (mutants.length === 0) throw new Error('there is no such mutant');
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stopAll);

  const hunts = [...new Map(mutants.map(({ hunt }) => [nameOf(hunt), hunt])).values()];
  const silent = await inWorkspaces(hunts, atOnce, async (workspace, how) => {
    const { what } = await workspace.with([], () => hunt(workspace.folder, how, CONTROL));
    console.log(`without a mutant, ${nameOf(how)}: ${what ?? 'silent, as it must be'}`);
    return what === undefined;
  });
  if (silent.includes(false)) throw new Error('whoever cries without a mutant proves nothing');

  const results = await inWorkspaces(mutants, atOnce, async (workspace, mutant): Promise<Caught> => {
    let huntedFrom = performance.now();
    const found = await workspace
      .with(mutant.edits, () => {
        huntedFrom = performance.now();
        return hunt(workspace.folder, mutant.hunt);
      })
      .catch((error: Error): Found => {
        if (error instanceof Interrupted) throw error;
        return { what: undefined, effort: error.message };
      });
    const caught = { ...found, mutant, seconds: (performance.now() - huntedFrom) / 1_000 };
    console.log(lineOf(caught));
    return caught;
  });
  console.log(`\n${tableOf(results)}`);
  const overlooked = results.filter(({ what }) => what === undefined);
  console.log(`\n${results.length - overlooked.length} of ${results.length} mutants caught`);
  if (overlooked.length > 0) process.exitCode = 1;
}

function readOptions(args: string[]): { only: string; by: string; atOnce: number } {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', default: '' },
      by: { type: 'string', default: '' },
      'at-once': { type: 'string', default: `${availableParallelism()}` },
    },
  });
  const atOnce = Number(values['at-once']);
  if (!Number.isSafeInteger(atOnce) || atOnce < 1) throw new Error('--at-once must be a whole number from 1');
  return { only: values.only, by: values.by, atOnce };
}

/**
 * Each item in one of so many workspaces; results in the order of the items. When one fails the others are stopped, and no
 * workspace is removed before what runs in it has ended: a fault suite has servers, and a disk, to take away.
 */
async function inWorkspaces<Item, Result>(
  items: readonly Item[],
  workspaces: number,
  work: (workspace: Workspace, item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const workers = Array.from({ length: Math.min(workspaces, items.length) }, async () => {
    let workspace: Workspace | undefined;
    try {
      workspace = new Workspace();
      while (next < items.length) {
        const index = next;
        next += 1;
        results[index] = await work(workspace, items[index] as Item);
      }
    } catch (error) {
      stopAll();
      throw error;
    } finally {
      workspace?.remove();
    }
  });
  const ended = await Promise.allSettled(workers);
  const failed = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  // The first reason is why; the others were interrupted because of it.
  if (failed.length > 0) throw failed.find((reason) => !(reason instanceof Interrupted)) ?? failed[0];
  return results;
}

function nameOf(how: Hunt): string {
  switch (how.by) {
    case 'simulator':
      return `simulator, ${how.world}`;
    case 'faults':
      return `fault suite, ${how.deployment}`;
    case 'contracts':
      return how.file.replace(/.*\/(.*)\.test\.ts/, 'contract suite, $1');
  }
}

function lineOf({ mutant, what, effort, seconds }: Caught): string {
  const result = what === undefined ? `OVERLOOKED by ${nameOf(mutant.hunt)}` : `caught by ${nameOf(mutant.hunt)}`;
  return `${mutant.name}: ${result} (${effort}, ${Math.round(seconds)} s)${what === undefined ? '' : `: ${what}`}`;
}

/** For `docs/reliability.md`. */
function tableOf(results: readonly Caught[]): string {
  const rows = results.map(({ mutant, what, effort, seconds }) => [
    mutant.name,
    nameOf(mutant.hunt),
    `${effort}, ${Math.round(seconds)} s`,
    what ?? 'OVERLOOKED',
  ]);
  const lines = [['mutant', 'caught by', 'after', 'what was seen'], ['---', '---', '---', '---'], ...rows];
  return lines.map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
}

try {
  await main();
} catch (error) {
  const isInterrupted = error instanceof Interrupted;
  console.error(isInterrupted ? error.message : `${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  process.exitCode = isInterrupted ? 130 : 2;
}
