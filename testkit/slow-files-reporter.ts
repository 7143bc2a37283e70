import type { Reporter, TestModule } from 'vitest/node';

const LISTED_FILES = 30;
const COLUMNS = ['start ms', 'imports ms', 'hooks, tests ms', 'tests', 'file'];

/**
 * Lists the files that took longest, as a table of Markdown, and the parts of their time: until the worker was ready, for the imports, and
 * for hooks and tests. `--reporter=./testkit/slow-files-reporter.ts` prints it.
 */
export default class SlowFilesReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const files = modules.map((module) => {
      const { prepareDuration, environmentSetupDuration, setupDuration, collectDuration, duration } =
        module.diagnostic();
      const start = prepareDuration + environmentSetupDuration + setupDuration;
      return {
        sum: start + collectDuration + duration,
        cells: [start, collectDuration, duration].map(Math.round),
        tests: [...module.children.allTests()].length,
        name: `${module.project.name}: ${module.relativeModuleId}`,
      };
    });
    const rows = files
      .sort((a, b) => b.sum - a.sum)
      .slice(0, LISTED_FILES)
      .map(({ cells, tests, name }) => [...cells, tests, name]);
    const lines = [COLUMNS, COLUMNS.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`);
    process.stdout.write(`\n${lines.join('\n')}\n\n${summary(files)}\n`);
  }
}

function summary(files: { cells: number[]; tests: number }[]): string {
  const seconds = (cell: number) => Math.round(files.reduce((sum, { cells }) => sum + (cells[cell] ?? 0), 0) / 1000);
  const tests = files.reduce((sum, file) => sum + file.tests, 0);
  return `${files.length} files, ${tests} tests: ${seconds(0)} s to start, ${seconds(1)} s of imports, ${seconds(2)} s of hooks and tests`;
}
