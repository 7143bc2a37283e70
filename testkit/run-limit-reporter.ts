import { spawnSync } from 'node:child_process';
import type { Reporter, TestModule, Vitest } from 'vitest/node';
import { patience } from './time/patience.js';

/** Ten times as long as `npm test` takes on two cores, and longer than all long tests. */
const RUN_LIMIT_MS = 3_600_000;

/**
 * Ends a run that takes too long, and names the tests that are under way, because tests that only compute have no limit of their own: a
 * slow machine would fail them.
 */
export default class RunLimitReporter implements Reporter {
  private readonly underWay = new Map<string, TestModule>();
  private limit: NodeJS.Timeout | undefined;

  onInit(vitest: Vitest): void {
    const limitMs = patience(RUN_LIMIT_MS);
    this.limit = setTimeout(() => {
      const names = [...this.underWay.values()].map((module) => {
        const [test] = module.children.allTests('pending');
        return `${module.relativeModuleId}${test ? ` > ${test.fullName}` : ''}`;
      });
      process.stderr.write(
        `\nThe run has taken ${Math.round(limitMs / 60_000)} minutes. Under way are:\n${names.join('\n')}\n`,
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
  }

  onTestRunEnd(): void {
    clearTimeout(this.limit);
  }
}
