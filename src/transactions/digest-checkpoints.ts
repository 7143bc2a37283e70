import { createHash, type Hash } from 'node:crypto';

/** Checkpoints of one list: with a million ids one every 4,000 ids, which are read in a few milliseconds. */
const MAX_CHECKPOINTS = 256;

/** The digest of the first ids of a list, from which the digest of the rest goes on. */
export interface Checkpoint {
  readonly lastId: number;
  readonly count: number;
  /** Never finished: only copies are, so that it can be extended again. */
  readonly digest: Hash;
}

const LIST_START: Checkpoint = { lastId: 0, count: 0, digest: createHash('md5') };

/** The last checkpoint before the first id that is different: everything up to it is as it was. */
export function lastBefore(checkpoints: readonly Checkpoint[], id: number): Checkpoint {
  return checkpoints.findLast(({ lastId }) => lastId < id) ?? LIST_START;
}

/** Leaves out what lies closer than `distance`, which doubles until few enough are left. The last one, the end, stays. */
export function sparse(checkpoints: readonly Checkpoint[], distance: number): Checkpoint[] {
  const end = checkpoints.at(-1);
  if (!end) return [];
  let least = distance;
  while (end.count / least > MAX_CHECKPOINTS) least *= 2;
  const kept: Checkpoint[] = [];
  for (const checkpoint of checkpoints.slice(0, -1)) {
    if (checkpoint.count - (kept.at(-1)?.count ?? 0) >= least) kept.push(checkpoint);
  }
  return [...kept, end];
}
