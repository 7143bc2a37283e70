/** Of two works with the same name, such as a reference, the second one begins after the first has ended, and finds the line that it wrote. */
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
