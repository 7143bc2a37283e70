// `npm run bench -- document`: the newest results of each row as tables between the markers of docs/engineering/performance.md. A part
// without results stays as it is, so a run may be renewed alone. Then it prints how much of `src` has changed since the commit of each table of
// the documents, so that the person who makes a release sees which tables are old.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../testkit/programs.js';
import type { GrowthRow } from './growth/measures.js';
import { growthTables } from './growth/tables.js';
import { git, type LatencyRow, newestResults, type RateRow, type Row, type SavedRun } from './results.js';
import { capital, roundedTable } from './statistics.js';
import { latencyTable, peerTable, ratioTable, shortTable, targetSentence, whenOf } from './tables.js';

const DOCUMENTS = join(ROOT, 'docs');
const DOCUMENT = join(DOCUMENTS, 'engineering', 'performance.md');
const HEADING = /^#+ (.*)$/;
const COMMIT = /\bcommit ([0-9a-f]{8})\b/g;
/** Shorter trials are not shown. */
const LEAST = { rounds: 3, seconds: 2 };

export async function writeDocument(): Promise<void> {
  const rates = (await newestResults<RateRow>('rates', isLongEnough)).map(withoutBefore);
  const latency = (await newestResults<LatencyRow>('latency', isLongEnough)).map(withoutBefore);
  const growth = await newestResults<GrowthRow>('growth', ({ isWhole }) => isWhole);
  const parts: Readonly<Record<string, readonly string[]>> = {
    short: ifAny(rates, () => [shortTable(rates)]),
    ratios: ifAny(rates, () => [ratioTable(rates), targetSentence(rates), measuredWhen(rates, extentOf)]),
    peers: ifAny(rates, () => [peerTable(rates)]),
    latency: ifAny(latency, () => [latencyTable(latency), measuredWhen(latency, extentOf)]),
    growth: ifAny(growth, () => growth.flatMap(growthTables)),
  };
  let text = await readFile(DOCUMENT, 'utf8');
  const written = Object.keys(parts).filter((name) => parts[name]?.length);
  for (const name of written) text = replacePart(text, name, (parts[name] ?? []).join('\n\n'));
  await writeFile(DOCUMENT, text);
  console.log(
    `Written to docs/engineering/performance.md: ${written.join(', ') || 'nothing, there are no results of whole runs'}`,
  );
  console.log(`\n${await ageTable()}`);
}

/** A line for each part of a document that names the commit that its figures were measured at. */
async function ageTable(): Promise<string> {
  const lines = new Map<string, string[]>();
  for (const page of (await readdir(DOCUMENTS, { recursive: true }))
    .filter((name) => name.endsWith('.md'))
    .toSorted()) {
    let heading = '';
    for (const line of (await readFile(join(DOCUMENTS, page), 'utf8')).split('\n')) {
      heading = HEADING.exec(line)?.[1] ?? heading;
      for (const [, commit = ''] of line.matchAll(COMMIT)) {
        const part = [page, heading, commit];
        lines.set(part.join(), [...part, changesSince(commit)]);
      }
    }
  }
  return roundedTable(['page', 'part', 'measured at', 'changed in src since'], [...lines.values()]);
}

function changesSince(commit: string): string {
  try {
    return git('diff', '-M', '--shortstat', commit, '--', 'src') || 'nothing';
  } catch {
    return 'unknown: this clone does not have the commit';
  }
}

const isLongEnough = ({ rounds, seconds }: { rounds: readonly unknown[]; seconds: number }) =>
  rounds.length >= LEAST.rounds && seconds >= LEAST.seconds;

/** An earlier version that took part is no result of this one. */
function withoutBefore<R extends RateRow | LatencyRow>(run: SavedRun<R>): SavedRun<R> {
  const rows = run.rows.map((row) => ({ ...row, rounds: row.rounds.map(({ before: _, ...others }) => others) }) as R);
  return { ...run, rows };
}

function ifAny(runs: readonly unknown[], paragraphs: () => readonly string[]): readonly string[] {
  return runs.length > 0 ? paragraphs() : [];
}

function measuredWhen<R extends Row>(runs: readonly SavedRun<R>[], extent: (row: R) => string): string {
  return runs
    .map(({ deployment, machine, rows }) => {
      const extents = [...new Set(rows.map(extent))].filter(Boolean);
      const how = [whenOf(rows), `Node.js ${machine.node.slice(1)}`, `${machine.processors} processors`, ...extents];
      return `${capital(deployment)}: ${how.join(', ')}.`;
    })
    .join(' ');
}

const extentOf = ({ rounds, seconds }: { rounds: readonly unknown[]; seconds: number }) =>
  `${rounds.length} rounds of ${seconds} s`;

function replacePart(all: string, name: string, content: string): string {
  const [begin, end] = [`<!-- bench:${name} -->`, `<!-- end of ${name} -->`];
  const [from, to] = [all.indexOf(begin), all.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/engineering/performance.md has no part between ${begin} and ${end}`);
  return `${all.slice(0, from + begin.length)}\n\n${content}\n\n${all.slice(to)}`;
}
