// Compiles the packages that the service brings along, each into its own dist/, from which it is copied to dist/NAME/; then src/ into dist/,
// reference-processor/ into dist/reference-processor/ and console/ into dist/console/. The order says who imports whom: the commands and the
// console the packages, and the reference processor the service's log. Files that the compiler leaves out, such as SQL, are copied. Does
// nothing that is already done: the compiler is incremental, so `npm start` may call this every time.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildConsole } from '../console/build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'src');
const output = join(root, 'dist');
const REFERENCE_PROCESSOR = 'reference-processor';
/**
 * The parts of the reference page, copied so that the service is installed without that package. As a plugin it would register routes
 * without scopes and descriptions; `swagger-ui-dist`, which has the same files, reports its installation to a company.
 */
const REFERENCE_PAGE = join('http', 'openapi', 'reference-page');
const SWAGGER_UI_FILES = ['swagger-ui-bundle.js', 'swagger-ui.css'];
/** The service finds them as `#idempay/NAME` (package.json), and its package names no second package of ours. */
const BUILT_IN = ['client', 'statements'];
/** The commands that only ask a service. Their package has those two, and what it takes of `src/platform`, in its own dist/, as they are in the repository. */
const CLI = join('cli', 'dist', 'cli');
/** The folder of the files that `require` gets of a package, next to the files that `import` gets. */
const REQUIRED = 'required';
const swaggerUi = join(root, 'node_modules', '@fastify', 'swagger-ui', 'static');
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

if (!existsSync(compiler)) {
  // Without the development dependencies (NODE_ENV=production) a build that is there is served as it is.
  if (existsSync(join(output, 'main.js'))) process.exit(0);
  console.error('TypeScript is not installed, so there is nothing to build with: npm ci --include=dev');
  process.exit(1);
}
const unlinked = readWorkspaces().find((name) => !existsSync(join(root, 'node_modules', '@idempay', name)));
if (unlinked !== undefined) {
  console.error(`The package in ${unlinked}/ is not linked, because this clone has got it since npm ran last: npm ci`);
  process.exit(1);
}
for (const name of BUILT_IN) {
  removeOutputsWithoutSource(join(root, name), join(root, name, 'dist'), [REQUIRED]);
  removeOutputsWithoutSource(join(root, name), join(output, name));
}
removeOutputsWithoutSource(root, join(root, 'cli', 'dist'));
removeOutputsWithoutSource(join(root, 'cli'), join(output, 'cli'));
removeOutputsWithoutSource(join(root, REFERENCE_PROCESSOR), join(output, REFERENCE_PROCESSOR));
removeOutputsWithoutSource(source, output, [
  ...BUILT_IN,
  'cli',
  REFERENCE_PROCESSOR,
  REFERENCE_PAGE,
  join('testing', REQUIRED),
]);
for (const name of BUILT_IN) {
  const built = join(root, name, 'dist');
  compile(join(name, 'tsconfig.json'));
  // With the declarations, from which the compiler has the types of the service's own imports.
  copyNewer(built, join(output, name), (path) => !path.endsWith('.tsbuildinfo') && path !== join(built, REQUIRED));
}
writeRequiredEntry(join(root, 'client', 'dist'));
compile(join('cli', 'tsconfig.json'));
// Without its start: the service starts its commands itself.
copyNewer(join(root, CLI), join(output, 'cli'), (path) => !/[/\\]main\.(js|d\.ts)$/.test(path));
compile('tsconfig.build.json');
compile(join(REFERENCE_PROCESSOR, 'tsconfig.json'));
writeRequiredEntry(join(output, 'testing'));
copyNewer(source, output, (path) => !path.endsWith('.ts'));
for (const name of SWAGGER_UI_FILES) cpSync(join(swaggerUi, name), join(output, REFERENCE_PAGE, name));
await buildConsole(join(output, 'console'));

function readWorkspaces() {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).workspaces;
}

function compile(project) {
  const compiled = spawnSync(process.execPath, [compiler, '-p', join(root, project)], { stdio: 'inherit' });
  if (compiled.status !== 0) process.exit(compiled.status ?? 1);
}

/**
 * TypeScript does not let a CommonJS module import the types of an ES module (TS1479), so it gets the same declarations in a folder of
 * CommonJS. The code is not copied: the entry passes on the ES module, so that `instanceof` holds in a program that uses both. Node.js can
 * require ES modules since 20.19.
 */
function writeRequiredEntry(built) {
  const folder = join(built, REQUIRED);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }\n');
  writeFileSync(join(folder, 'index.js'), "module.exports = require('../index.js');\n");
  for (const path of readdirSync(built, { recursive: true })) {
    if (!path.startsWith(REQUIRED) && path.endsWith('.d.ts'))
      copyNewer(join(built, path), join(folder, path), () => true);
  }
}

/** A file that is up to date is not written again, because a process that starts at the same time may be reading it. */
function copyNewer(from, to, isCopied) {
  const isNewer = (file, copy) => {
    const { mtimeMs } = statSync(file);
    return statSync(file).isDirectory() || !existsSync(copy) || statSync(copy).mtimeMs < mtimeMs;
  };
  cpSync(from, to, { recursive: true, filter: (file, copy) => isCopied(file) && isNewer(file, copy) });
}

/**
 * Deleted or renamed files must not stay in what is built: a test could still import the module, and a start would apply
 * the migration under both names. `copied` are the folders that come from elsewhere.
 */
function removeOutputsWithoutSource(sources, built, copied = []) {
  if (!existsSync(built)) return;
  const outputs = readdirSync(built, { recursive: true }).filter((path) => /\.(js|sql|lua)$/.test(path));
  const orphaned = outputs.some(
    (path) =>
      !copied.some((folder) => path.startsWith(join(folder, sep))) &&
      !existsSync(join(sources, path.replace(/\.js$/, '.ts'))),
  );
  if (orphaned) rmSync(built, { recursive: true });
}
