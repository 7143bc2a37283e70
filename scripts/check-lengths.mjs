// Checks that no file of code is too long: a longer one usually has two responsibilities. Run by
// `npm run check`.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const MOST_LINES = 350;
const LOOKED_AT = /^(src|client|console|examples|test|testkit|proof|bench|scripts)\/.*\.(tsx?|mjs|css|lua|sql)$/;

const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).split('\n');
const problems = files
  .filter((file) => LOOKED_AT.test(file) && existsSync(file))
  .map((file) => ({ file, lines: readFileSync(file, 'utf8').trimEnd().split('\n').length }))
  .filter(({ lines }) => lines > MOST_LINES)
  .map(
    ({ file, lines }) => `${file} has ${lines} lines, at most ${MOST_LINES} are allowed: give one of its nouns a file`,
  );

if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
