import { readdirSync, readFileSync } from 'node:fs';

/** A numbered file that brings the schema of a store forward. A released one never changes. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /** `side by side`: processes of the version before go on with the new schema. `full stop`: all of them must have been stopped. */
  readonly mode: 'full stop' | 'side by side';
}

const NAME = /^\d{4}_[a-z0-9_]+\.sql$/;
/** The first line of a file says why. */
const MODE = /^-- (Full stop|Side by side): /;

/** The files of a folder, in order. Throws if one has another name, or does not begin with its mode. */
export function readMigrations(folder: URL): readonly Migration[] {
  return readdirSync(folder)
    .sort()
    .map((name) => {
      const sql = readFileSync(new URL(name, folder), 'utf8');
      const mode = MODE.exec(sql)?.[1]?.toLowerCase() as Migration['mode'] | undefined;
      if (!NAME.test(name) || !mode) {
        throw new Error(
          `The migration ${name} must be named NNNN_slug.sql and begin with '-- Full stop: ' or '-- Side by side: '.`,
        );
      }
      return { name, sql, mode };
    });
}
