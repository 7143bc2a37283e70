import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { markdownTable } from '../../testkit/markdown-table.js';
import { ROOT } from '../../testkit/programs.js';
import { CHECKS, type Check, type Finding } from './checks.js';
import type { Mutant } from './mutants.js';

const KEPT = join(ROOT, 'proof/results/mutants.jsonl');
const PAGE = join(ROOT, 'docs/engineering/mutants.md');
const BIOME = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');
const LONGEST_TEXT = 140;

interface Result extends Finding {
  readonly mutant: string;
  readonly check: string;
  readonly seconds: number;
  readonly commit: string;
}

/** What every check made of every mutant, over all runs in this folder; the last run of a pair counts. */
export class Results {
  readonly #byPair = new Map<string, Result>();
  readonly #commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();

  constructor() {
    if (!existsSync(KEPT)) return;
    for (const line of readFileSync(KEPT, 'utf8').trim().split('\n')) this.#put(JSON.parse(line));
  }

  add(mutant: Mutant, check: Check, finding: Finding, seconds: number): void {
    const result = { mutant: mutant.name, check: check.name, ...finding, seconds, commit: this.#commit };
    this.#put(result);
    mkdirSync(dirname(KEPT), { recursive: true });
    appendFileSync(KEPT, `${JSON.stringify(result)}\n`);
  }

  of(mutant: Mutant, check: Check): Result | undefined {
    return this.#byPair.get(`${mutant.name}|${check.name}`);
  }

  isNoticed(mutant: Mutant): boolean {
    return CHECKS.some((check) => this.of(mutant, check)?.noticed !== undefined);
  }

  /** For `docs/engineering/mutants.md`: a matrix of who noticed, and below it what was seen. */
  write(mutants: readonly Mutant[]): void {
    const pairs = mutants.flatMap((mutant) => CHECKS.map((check) => this.of(mutant, check)));
    const results = pairs.filter((result) => result !== undefined);
    const commits = [...new Set(results.map(({ commit }) => commit))];
    const page = `# Mutants

Deliberate mistakes, planted one at a time, and the checks that notice them. \`npm run mutants -- --write\` wrote this page, at ${commits.join(', ')}.
A cell says what it took: seeds or sessions, or *yes* for a test suite. **no**: not noticed. Empty: the check does not run the
changed code. ?: not tried.

${markdownTable(
  ['mutant', ...CHECKS.map(({ name }) => name)],
  mutants.map((mutant) => [mutant.name, ...this.#cells(mutant)]),
)}

## What was seen

${markdownTable(['mutant', 'check', 'after', 'broken promise or failed test'], results.flatMap(seen))}
`;
    writeFileSync(PAGE, page);
    execFileSync(process.execPath, [BIOME, 'format', '--write', PAGE], { cwd: ROOT, stdio: 'ignore' });
  }

  #put(result: Result): void {
    this.#byPair.set(`${result.mutant}|${result.check}`, result);
  }

  #cells(mutant: Mutant): string[] {
    return CHECKS.map((check) => {
      if (!canNotice(check, mutant)) return '';
      const result = this.of(mutant, check);
      if (!result) return '?';
      return result.noticed === undefined ? '**no**' : result.effort.replace('the suite', 'yes');
    });
  }
}

/** Whether the check runs at least one of the changed files. */
export function canNotice({ without }: Check, { edits }: Mutant): boolean {
  return edits.some(({ file }) => !without.some((pattern) => pattern.test(file)));
}

function seen({ mutant, check, noticed, effort, seconds }: Result): string[][] {
  if (noticed === undefined) return [];
  const what = noticed.length > LONGEST_TEXT ? `${noticed.slice(0, LONGEST_TEXT)} ...` : noticed;
  return [[mutant, check, `${effort}, ${Math.round(seconds)} s`, what]];
}
