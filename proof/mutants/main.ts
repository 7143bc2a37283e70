import { parseArgs } from 'node:util';
import { CHECKS } from './checks.js';
import { MUTANTS } from './mutants.js';
import { canNotice, Results } from './results.js';
import { Workspace } from './workspace.js';

const USAGE = `npm run proof -- mutants [options]
  --only TEXT     mutants whose name, or the path of a file that they change, has this text; may be repeated (all)
  --checks LIST   checks whose name begins with one of these, by comma (all but the faults):
                  ${CHECKS.map(({ name }) => name).join(', ')}
  --seeds N       seeds of each simulation (500)
  --sessions N    sessions of each fault suite, a minute each (3)
  --resume        leaves out what earlier runs in this folder have tried
  --table         runs nothing: prints what the runs in this folder found of these mutants, as a Markdown table`;

const INTERRUPTED = 130;

/** Gives each mutant to each check. Exit code 1: no check of this run or an earlier one noticed one of them. */
async function main(stop: AbortSignal): Promise<void> {
  const { mutants, checks, resume, table, ...effort } = readOptions();
  const results = new Results();
  if (table) {
    console.log(results.table(mutants));
    return;
  }
  const workspace = new Workspace(stop);
  try {
    await workspace.with([], async () => {
      for (const { name, run } of checks) {
        const { noticed } = await run(
          workspace,
          { seeds: Math.min(effort.seeds, 100), sessions: 1 },
          { edits: mutants.flatMap(({ edits }) => edits) },
        );
        if (noticed !== undefined) throw new Error(`${name} fails without a mutant and proves nothing: ${noticed}`);
        console.log(`without a mutant, ${name}: silent, as it must be`);
      }
    });
    for (const mutant of mutants) {
      const open = checks.filter((check) => canNotice(check, mutant) && !(resume && results.of(mutant, check)));
      if (open.length === 0) continue;
      console.log(mutant.name);
      const tried = workspace.with(mutant.edits, async () => {
        for (const check of open) {
          const from = performance.now();
          const finding = await check.run(workspace, effort, mutant);
          results.add(mutant, check, finding, (performance.now() - from) / 1_000);
          const verdict = finding.noticed === undefined ? 'NOT NOTICED' : `noticed: ${finding.noticed}`;
          console.log(`  ${check.name} (${finding.effort}): ${verdict}`);
        }
      });
      // The others are worth trying.
      await tried.catch((error) => {
        stop.throwIfAborted();
        console.log(`  ${error.message}`);
      });
    }
  } finally {
    workspace.remove();
  }
  const noticeable = mutants.filter((mutant) => checks.some((check) => canNotice(check, mutant)));
  const unnoticed = noticeable.filter((mutant) => !results.isNoticed(mutant));
  console.log(`${mutants.length - unnoticed.length} of ${mutants.length} mutants noticed`);
  for (const { name } of unnoticed) console.log(`  not noticed: ${name}`);
  if (unnoticed.length > 0) process.exitCode = 1;
}

/** Throws with a sentence for the user. */
function readOptions() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [''] },
      checks: { type: 'string', default: 'simulator,unit,protocol,contracts,adapters' },
      seeds: { type: 'string', default: '500' },
      sessions: { type: 'string', default: '3' },
      resume: { type: 'boolean', default: false },
      table: { type: 'boolean', default: false },
    },
  });
  const mutants = MUTANTS.filter(({ name, edits }) =>
    values.only.some((text) => name.includes(text) || edits.some(({ file }) => file.includes(text))),
  );
  if (mutants.length === 0) throw new Error(`no mutant has "${values.only.join('" or "')}" in its name or its files`);
  const names = values.checks.split(',').filter((name) => name !== '');
  const unknown = names.find((name) => !CHECKS.some((check) => check.name.startsWith(name)));
  if (unknown !== undefined) throw new Error(`no check's name begins with "${unknown}"`);
  const checks = CHECKS.filter((check) => names.some((name) => check.name.startsWith(name)));
  const [seeds, sessions] = [Number(values.seeds), Number(values.sessions)];
  if (![seeds, sessions].every((number) => Number.isSafeInteger(number) && number > 0)) {
    throw new Error('--seeds and --sessions are whole numbers from 1');
  }
  return { ...values, mutants, checks, seeds, sessions };
}

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
try {
  await main(stop.signal);
} catch (error) {
  const told = error instanceof Error ? error.message : error;
  console.error(stop.signal.aborted ? 'interrupted' : `${told}\n\n${USAGE}`);
  process.exitCode = stop.signal.aborted ? INTERRUPTED : 2;
}
