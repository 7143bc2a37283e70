// Migrates a store with a folder of migrations, for tests that kill it: `node migrate.mjs FILE-OR-URL FOLDER`.
import { pathToFileURL } from 'node:url';
import { openForWriting } from '#idempay/stores/embedded/file/sqlite.js';
import { migrate as migrateEmbedded } from '#idempay/stores/embedded/migrate.js';
import { migrate as migratePostgres } from '#idempay/stores/postgres/migrate.js';

const [store = '', path = ''] = process.argv.slice(2);
const folder = pathToFileURL(`${path}/`);
process.stdout.write('migrating\n');
if (store.startsWith('postgres')) await migratePostgres(store, () => {}, folder);
else migrateEmbedded(openForWriting(store), folder);
