import { spawnSync } from 'node:child_process';
import type { Reporter, TestModule, Vitest } from 'vitest/node';
import { patience } from './time/patience.js';

/** Much longer than all long tests take, which were an hour on a slow machine next to other work. */
const RUN_LIMIT_MS = 3 * 3_600_000;

/**
 * Ends a run that takes too long, and names the tests that are under way, because tests that only compute have no limit of their own: a
 * slow machine would fail them. It names the failures too, which are otherwise told at the end of a run.
 */
export default class RunLimitReporter implements Reporter {
  private readonly underWay = new Map<string, TestModule>();
  private readonly failures: string[] = [];
  private limit: NodeJS.Timeout | undefined;

  onInit(vitest: Vitest): void {
    const limitMs = patience(RUN_LIMIT_MS);
    this.limit = setTimeout(() => {
      const names = [...this.underWay.values()].map((module) => {
        const [test] = module.children.allTests('pending');
        return `${module.relativeModuleId}${test ? ` > ${test.fullName}` : ''}`;
      });
      process.stderr.write(
        [
          `\nThe run has taken ${Math.round(limitMs / 60_000)} minutes. Under way are:`,
          ...names,
          `${this.failures.length} tests failed before:`,
          ...this.failures,
          '',
        ].join('\n'),
      );
      process.exitCode = 1;
      // A worker that computes without an end hears nothing of the exit.
      process.once('exit', () => spawnSync('pkill', ['-KILL', '-P', `${process.pid}`]));
      void vitest.exit(true);
    }, limitMs);
    this.limit.unref();
  }

  onTestModuleQueued(module: TestModule): void {
    this.underWay.set(module.moduleId, module);
  }

  /** Now its tests are known. */
  onTestModuleStart(module: TestModule): void {
    this.underWay.set(module.moduleId, module);
  }

  onTestModuleEnd(module: TestModule): void {
    this.underWay.delete(module.moduleId);
    for (const test of module.children.allTests('failed')) {
      const [error] = test.result().errors ?? [];
      this.failures.push(`${module.relativeModuleId} > ${test.fullName}: ${error?.message}`);
    }
  }

  onTestRunEnd(): void {
    clearTimeout(this.limit);
  }
}
