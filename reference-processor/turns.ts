/** Runs works of the same name, such as a reference, one after the other, so that the second finds the line that the first wrote. */
export function createTurns() {
  const turns = new Map<string, Promise<unknown>>();
  return async function inTurn<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const before = turns.get(name) ?? Promise.resolve();
    const turn = before.then(work, work);
    turns.set(name, turn);
    try {
      return await turn;
    } finally {
      if (turns.get(name) === turn) turns.delete(name);
    }
  };
}
