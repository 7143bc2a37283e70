// Checks what a release says of itself, and prints its notes: `node scripts/check-release.mjs TAG REPOSITORY`. The tag is the version of
// all packages, the changelog has a section for it that is not in preparation, and package.json names the repository that publishes.
import { readFileSync } from 'node:fs';

const [tag = '', repository = ''] = process.argv.slice(2);
const read = (file) => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
const version = tag.replace(/^v/, '');
const problems = [];

for (const file of ['package.json', 'client/package.json', 'cli/package.json']) {
  const manifest = JSON.parse(read(file));
  if (tag !== `v${manifest.version}`)
    problems.push(`${file} has the version ${manifest.version}, and the tag is "${tag}"`);
}
const named = JSON.parse(read('package.json')).repository?.url.replace(/^git\+|\.git$/g, '');
if (named !== repository)
  problems.push(
    `package.json names the repository ${named ?? '(none)'}, and this is "${repository}": set "repository" in package.json`,
  );
const section = read('CHANGELOG.md')
  .split(/^## /m)
  .find((each) => each.startsWith(`${version},`) || each.startsWith(`${version}\n`));
const [title = '', ...notes] = section?.split('\n') ?? [];
if (!/, \d{4}-\d\d-\d\d$/.test(title)) problems.push(`CHANGELOG.md has no section "## ${version}, YYYY-MM-DD"`);

if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
console.log(notes.join('\n').trim());
