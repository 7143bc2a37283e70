/** The highest log position of each server that any process has seen; kept outside the database, which may be restored. */
export interface LogPositions {
  /** Remembers the position if it is the highest so far; resolves to the highest. */
  raise(server: string, position: number): Promise<number>;
}
