// Writes the description that `/openapi.json` serves to a file, or to the output; with --all the whole one of `/openapi-all.json`.
// Starts nothing and opens no store.
//   npm run --silent build && node scripts/openapi.mjs [--all] [FILE]
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { createListener } from '../dist/http/connections/listener.js';
import { createServer } from '../dist/http/server.js';

const silent = pino({ level: 'silent' });
const rules = { access: undefined, loopbackOnly: false, trustedNetworks: undefined };
const server = createServer(createListener(silent), {}, rules, silent, () => {});
const { values, positionals } = parseArgs({ options: { all: { type: 'boolean' } }, allowPositionals: true });
const { forClients, whole } = server.openApiDocuments();
const text = `${JSON.stringify(values.all ? whole : forClients, undefined, 2)}\n`;
const [file] = positionals;
if (file === undefined) process.stdout.write(text);
else writeFileSync(file, text);
