import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** In a clean clone, which knows nothing of earlier runs, these would begin among the last, and end alone. */
const SLOWEST = [
  'test/proof/simulator.test.ts',
  'test/adapters/embedded-restored.test.ts',
  'test/contracts/distributed.test.ts',
  'test/http/payments.test.ts',
  'test/http/process.test.ts',
  'test/http/processor-kinds.test.ts',
  'test/faults/processor-outcomes.test.ts',
  'test/http/fuzz.test.ts',
  'test/http/probes.test.ts',
  'test/http/tls.test.ts',
  'test/commands/import.test.ts',
  'test/http/connection-limits.test.ts',
  'test/http/webhooks.test.ts',
  'test/faults/distributed-redis.test.ts',
  'test/faults/migrations.test.ts',
  'test/faults/settlements.test.ts',
  'test/unit/import/generated-files.test.ts',
  'test/unit/chunk-turns.test.ts',
];

/**
 * A worker goes on only with a file of the same project, so the files of a project follow each other. In a run of both, `fast`
 * comes before `unit`, whose short files leave no worker idle at the end.
 */
export default class ProjectSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const order = ({ moduleId }: TestSpecification) => {
      const index = SLOWEST.findIndex((name) => moduleId.endsWith(name));
      return index < 0 ? SLOWEST.length : index;
    };
    return sorted.toSorted(
      (one, other) => one.project.name.localeCompare(other.project.name) || order(one) - order(other),
    );
  }
}
