import { TABLE_ROWS } from './results.js';

/** As many as `--limit` says: on a terminal by default as many as a person reads, else all of them. Says when there are more. */
export async function* firstOf<Row>(
  rows: AsyncIterable<Row>,
  limit: number | undefined,
  { json }: { readonly json?: true | undefined },
): AsyncGenerator<Row> {
  const most = limit ?? (process.stdout.isTTY && !json ? TABLE_ROWS : 0);
  let count = 0;
  for await (const row of rows) {
    if (most > 0 && count === most) {
      console.error(`There are more than ${most}: --limit says how many to show, and 0 shows all of them.`);
      return;
    }
    count += 1;
    yield row;
  }
}
