import type { Reporter, TestModule, Vitest } from 'vitest/node';

/** Closes a run with one line that people and machines can read: "N passed, N failed". */
export default class CountReporter implements Reporter {
  private isFiltered = false;

  onInit({ config }: Vitest): void {
    this.isFiltered = config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const states = modules.flatMap(({ children }) => [...children.allTests()].map((test) => test.result().state));
    const passed = states.filter((state) => state === 'passed').length;
    // A test that did not run has failed, unless `-t` left it out.
    const notRun = this.isFiltered ? states.filter((state) => state === 'skipped').length : 0;
    // A file that could not even be loaded, and an error outside every test, count as one failure each.
    const faults = [...unhandledErrors, ...modules.flatMap((module) => module.errors())];
    process.stdout.write(`\n${passed} passed, ${states.length - notRun - passed + faults.length} failed\n`);
  }
}
