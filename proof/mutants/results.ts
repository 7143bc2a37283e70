import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT } from '../../testkit/programs.js';
import { CHECKS, type Check, type Finding } from './checks.js';
import type { Mutant } from './mutant.js';

const KEPT = join(ROOT, 'proof/results/mutants.jsonl');
const PAGE = join(ROOT, 'docs/mutants.md');
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

  /** For `docs/mutants.md`: a matrix of who noticed, and below it what was seen. */
  write(mutants: readonly Mutant[]): void {
    const cells = mutants.flatMap((mutant) => CHECKS.map((check) => this.of(mutant, check)));
    const commits = [...new Set(cells.flatMap((result) => result?.commit ?? []))];
    const page = [
      '# Mutants',
      [
        `Deliberate mistakes, planted one at a time, and the checks that notice them. \`npm run mutants -- --write\` wrote this page, at ${commits.join(', ')}.`,
        'A cell says what it took: seeds or sessions, or *yes* for a test suite. **no**: not noticed. Empty: the check does not run the',
        'changed code. ?: not tried.',
      ].join('\n'),
      table(
        ['mutant', ...CHECKS.map(({ name }) => name)],
        mutants.map((mutant) => this.#row(mutant)),
      ),
      '## What was seen',
      table(
        ['mutant', 'check', 'after', 'broken promise or failed test'],
        mutants.flatMap((mutant) => this.#seen(mutant)),
      ),
    ].join('\n\n');
    writeFileSync(PAGE, `${page}\n`);
    execFileSync(process.execPath, [BIOME, 'format', '--write', PAGE], { cwd: ROOT, stdio: 'ignore' });
  }

  #put(result: Result): void {
    this.#byPair.set(`${result.mutant}|${result.check}`, result);
  }

  #row(mutant: Mutant): string[] {
    const cells = CHECKS.map((check) => {
      if (whyNotApplicable(mutant, check)) return '';
      const result = this.of(mutant, check);
      if (!result) return '?';
      return result.noticed === undefined ? '**no**' : result.effort.replace('the suite', 'yes');
    });
    return [mutant.name, ...cells];
  }

  #seen(mutant: Mutant): string[][] {
    return CHECKS.flatMap((check) => {
      const result = this.of(mutant, check);
      if (result?.noticed === undefined) return [];
      const what =
        result.noticed.length > LONGEST_TEXT ? `${result.noticed.slice(0, LONGEST_TEXT)} ...` : result.noticed;
      return [[mutant.name, check.name, `${result.effort}, ${Math.round(result.seconds)} s`, what]];
    });
  }
}

/** Undefined: the check runs at least one of the changed files. */
export function whyNotApplicable({ edits }: Mutant, check: Check): string | undefined {
  const reasons = edits.map(({ file }) => check.cannotNotice(file));
  return reasons.includes(undefined) ? undefined : reasons[0];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`)
    .join('\n');
}
