/** The life of a sample, in memory and in the store that the processes share. */
export const KEEP_MS = 900_000;

/**
 * Port: the samples of all processes of a deployment, where there may be several. Each line is the JSON text of one sample.
 * It may forget, and lose what was appended: then the view has a gap. Faults are StoreUnavailable, and nobody but the view
 * depends on them.
 */
export interface SharedSamples {
  append(line: string): Promise<void>;
  /**
   * The next lines after `position`, in the order in which they were appended, and where the ones after them begin; undefined
   * begins with the oldest that is kept. `isLast`: there are no more for now.
   */
  read(position: string | undefined): Promise<SharedPage>;
}

export interface SharedPage {
  readonly lines: readonly string[];
  readonly position: string | undefined;
  readonly isLast: boolean;
}
