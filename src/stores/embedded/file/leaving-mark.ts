import { CannotOpen } from '../../shared/deployment.js';
import type { Database } from './sqlite.js';

/** The mark of a folder that its deployment leaves, or has left (docs/engineering/decisions/0081). */
export interface LeavingMark {
  /** The random name of the transfer. */
  readonly name: string;
  /** Its target may have started, so only the target's row can say that it has not. */
  readonly isCopied: boolean;
}

const FIND_MARK = 'SELECT transfer AS name, is_copied FROM deployment';

/** Undefined if the deployment stays. */
export function readMark(database: Database): LeavingMark | undefined {
  const row = database.prepare(FIND_MARK).get() as { name: string | null; is_copied: number };
  return row.name === null ? undefined : { name: row.name, isCopied: row.is_copied === 1 };
}

/** Throws CannotOpen if the deployment leaves this database. `refused`: what is not done then. */
export function refuseLeaving(database: Database, refused: string): void {
  if (!readMark(database)) return;
  throw new CannotOpen(
    `${refused}: idempay transfer moves this deployment to Redis and PostgreSQL. Go on with it (idempay transfer), serve there, or take it back (idempay transfer --cancel).`,
  );
}
