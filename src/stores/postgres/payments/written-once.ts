import { isUnknown, StoreUnavailable } from '../../../platform/faults.js';

/** A value in the row of the deployment. Each claim compares it, so a process writes it there before its first claim. */
export interface WrittenOnce {
  /** Resolves when the value is there; undefined when this process knows that already. */
  write(): Promise<void> | undefined;
  /** After a claim that was refused: whether the database had lost the value, and has it again. */
  writeAgain(): Promise<boolean>;
}

/** `isThere` throws if the database has a value that excludes this one. `compareAndSet` writes only if it has none. */
export function createWrittenOnce(
  what: string,
  isThere: () => Promise<boolean>,
  compareAndSet: () => Promise<unknown>,
): WrittenOnce {
  let writing: Promise<void> | undefined;
  let isWritten = false;

  /** If the reply was lost, or another process was quicker, the second read finds the value. */
  async function writeAndRead(): Promise<void> {
    if (await isThere()) return;
    const lost = await compareAndSet().then(
      () => undefined,
      (fault: unknown) => {
        if (!isUnknown(fault)) throw fault;
        return fault;
      },
    );
    // Nothing was claimed yet, so that the request changed nothing, also if the value is written later.
    if (!(await isThere())) throw new StoreUnavailable('unchanged', `${what} could not be written down`, lost);
  }

  /** Claims that come meanwhile wait for the same answer. */
  function write(): Promise<void> {
    writing ??= writeAndRead()
      .then(() => {
        isWritten = true;
      })
      .finally(() => {
        writing = undefined;
      });
    return writing;
  }

  return {
    write: () => (isWritten ? undefined : write()),

    async writeAgain() {
      if (await isThere()) return false;
      isWritten = false;
      await write();
      return true;
    },
  };
}
