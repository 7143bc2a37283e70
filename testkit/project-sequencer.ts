import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * A worker goes on only with a file of the same project, so the files of a project follow each other. In a run of both, `fast`
 * comes before `unit`, whose short files leave no worker idle at the end.
 */
export default class ProjectSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => one.project.name.localeCompare(other.project.name));
  }
}
