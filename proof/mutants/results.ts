import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { markdownTable } from '../../testkit/markdown-table.js';
import { ROOT } from '../../testkit/programs.js';
import { CHECKS, type Check, type Finding } from './checks.js';
import type { Mutant } from './mutants.js';

const KEPT = join(ROOT, 'proof/results/mutants.jsonl');
const LONGEST_TEXT = 140;

interface Result extends Finding {
  readonly mutant: string;
  readonly check: string;
  readonly seconds: number;
  readonly commit: string;
}

/** The result of every check for every mutant, over all runs in this folder; the last run of a pair counts. */
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

  /** A row for each mutant, a column for each check. */
  table(mutants: readonly Mutant[]): string {
    const head = ['mutant', ...CHECKS.map(({ name }) => name), 'seen first'];
    return markdownTable(
      head,
      mutants.map((mutant) => [mutant.name, ...this.#cells(mutant), this.#seenFirst(mutant)]),
    );
  }

  #put(result: Result): void {
    this.#byPair.set(`${result.mutant}|${result.check}`, result);
  }

  /** The broken promise or the failed test. */
  #seenFirst(mutant: Mutant): string {
    const seen = CHECKS.map((check) => this.of(mutant, check)?.noticed).find((noticed) => noticed !== undefined) ?? '';
    return seen.length > LONGEST_TEXT ? `${seen.slice(0, LONGEST_TEXT)} ...` : seen;
  }

  /** The effort that it took to notice the mutant; empty if the check does not run the changed code. */
  #cells(mutant: Mutant): string[] {
    return CHECKS.map((check) => {
      if (!canNotice(check, mutant)) return '';
      const result = this.of(mutant, check);
      if (!result) return '?';
      return result.noticed === undefined ? '**no**' : result.effort.replace('the suite', 'yes');
    });
  }
}

/** True if the check runs at least one of the changed files. */
export function canNotice({ without }: Check, { edits }: Mutant): boolean {
  return edits.some(({ file }) => !without.some((pattern) => pattern.test(file)));
}
