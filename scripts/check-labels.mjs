// Checks that every rule label leads to docs/engineering/specification.md and every number of a decision to its record. Checks also that
// every test that is named exists, and that every relative link of a Markdown file leads to a file and a heading in it. Run by `npm run
// check`.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const RULES = 'docs/engineering/specification.md';
const LOOKED_AT =
  /^(src|bin|cli|test|testkit|proof|bench|docs|client|examples|console|scripts)\/.*\.(tsx?|mjs|lua|sql|md)$|^[A-Z]+\.md$/;

/** `rule P4`, `rules G1, P3 and T2`, `rules H1 to H3`. */
const NUMBERED_RULES = /\b[Rr]ules? ((?:[GPHTAO]\d{1,2}(?:, | and | to |-)?)+)/g;
/** `decision 0035`, `docs/engineering/decisions/0035`. */
const RECORDS = /\b[Dd]ecisions?[ /](\d{4})\b/g;
/** Rules were called decisions once; now a decision is a record. */
const RULES_AS_DECISIONS = /\b[Dd]ecisions? [GPHTAO]\d{1,2}\b/g;
/** `spec 2.5`, `spec 4.1 rule 3`, `spec 4.1 rules 2 to 4`, `spec 4.3 caching rule 1`. */
const SPEC = /\bspec (\d(?:\.\d)?)(?: (caching )?rules? (\d)(?:(?:, | and | to |-)(\d))?)?/g;
const PROTOCOL = /\bprotocol,? step (\d)/g;
const LINK = /\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)/g;
/** A page that a help text or a log line names. */
const NAMED_PAGE = /pageAt\('([^']+)'\)/g;
const NAMED_TEST =
  /`(?:test\/)?((?:unit|contracts|protocol|adapters|http|faults|proof|topologies|reference-processor|package|browser|examples|documents)(?:\/[a-z0-9-]+)+)`/g;

const rules = readFileSync(RULES, 'utf8');
const known = new Set([
  ...[...rules.matchAll(/^\*\*([GPHTAO]\d{1,2})\b/gm)].map(([, label]) => label),
  ...[...rules.matchAll(/^(?:\| |- \*\*)((?:spec|protocol step) \d(?:\.\d)?(?: (?:caching )?rule \d)?)\b/gm)].map(
    ([, label]) => label,
  ),
  ...[...rules.matchAll(/^## (Spec \d(?:\.\d)?)\b/gm)].map(([, label]) => label.toLowerCase()),
]);
const RECORD_FILES = 'docs/engineering/decisions';
const records = new Set(readdirSync(RECORD_FILES).map((name) => name.slice(0, 4)));
const problems = [];

for (const file of execFileSync('git', ['ls-files'], { encoding: 'utf8' }).split('\n')) {
  if (!LOOKED_AT.test(file) || !existsSync(file)) continue;
  const text = readFileSync(file, 'utf8');
  for (const label of labelsIn(text)) {
    if (!known.has(label)) problems.push(`${file}: ${RULES} has no "${label}"`);
  }
  for (const [, number] of text.matchAll(RECORDS)) {
    if (!records.has(number)) problems.push(`${file}: ${RECORD_FILES} has no record ${number}`);
  }
  for (const [label] of text.matchAll(RULES_AS_DECISIONS))
    problems.push(`${file}: "${label}" is a rule, not a decision`);
  for (const [, name] of text.matchAll(NAMED_TEST)) {
    if (![`test/${name}.test.ts`, `test/${name}.ts`, `test/${name}`, name].some((path) => existsSync(path))) {
      problems.push(`${file}: there is no test/${name}.test.ts`);
    }
  }
  for (const [, page] of text.matchAll(NAMED_PAGE)) {
    if (!existsSync(page)) problems.push(`${file}: there is no page ${page}`);
  }
  if (!file.endsWith('.md')) continue;
  for (const [, path, anchor] of text.matchAll(LINK)) {
    const target = path === '' ? file : join(dirname(file), path);
    if (!existsSync(target)) problems.push(`${file}: the link to ${path} leads nowhere`);
    else if (anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).includes(anchor)) {
      problems.push(`${file}: ${target} has no heading #${anchor}`);
    }
  }
}

if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}

function* labelsIn(text) {
  for (const [, list] of text.matchAll(NUMBERED_RULES)) yield* list.match(/[GPHTAO]\d{1,2}/g);
  for (const [, section, caching = '', rule, last = rule] of text.matchAll(SPEC)) {
    if (rule === undefined) yield `spec ${section}`;
    else
      for (let number = Number(rule); number <= Number(last); number += 1)
        yield `spec ${section} ${caching}rule ${number}`;
  }
  for (const [, step] of text.matchAll(PROTOCOL)) yield `protocol step ${step}`;
}

/** As GitHub makes them of headings. */
function anchorsOf(file) {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  );
}
