import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { ROOT } from './programs.js';

/** A stage of the Dockerfile: a folder that stands for `/`, empty at first, and what the instructions set. */
interface Stage {
  readonly root: string;
  workdir: string;
  readonly environment: Record<string, string>;
  user?: string;
  entrypoint?: readonly string[];
  healthcheck?: readonly string[];
}

/** An absolute path in a command or in a value: the start of a word, or the end of an option. */
const ABSOLUTE = /(?<=^|[\s=])\/(?=\w)/g;
/** The user of the base image. Without root there is no other owner than the one who runs this. */
const NODE_USER = process.getuid?.() === 0 ? '1000' : String(process.getuid?.());
const NO_VALUE: readonly string[] = ['VOLUME', 'EXPOSE'];

/**
 * Follows the Dockerfile without a container engine: each stage in an empty folder, with what it copies from the context and from other
 * stages, so that a file that is missing in the image is missing here. The base image is this machine, with its Node.js. Gives the last stage.
 */
export function buildImage(folder: string): Stage {
  const stages = new Map<string, Stage>();
  let stage: Stage | undefined;
  for (const [instruction, text] of readInstructions()) {
    if (instruction === 'FROM') {
      const name = / AS (\S+)$/.exec(text)?.[1] ?? 'last';
      stage = { root: join(folder, name), workdir: '/', environment: {} };
      mkdirSync(join(stage.root, 'usr', 'local', 'bin'), { recursive: true });
      stages.set(name, stage);
    } else if (stage === undefined) throw new Error(`${instruction} comes before FROM`);
    else follow(stage, stages, instruction, text);
  }
  if (stage === undefined) throw new Error('The Dockerfile has no stage');
  return stage;
}

/** A path, command or value of the image, as it is on this machine. */
export const onMachine = ({ root }: Pick<Stage, 'root'>, text: string) => text.replaceAll(ABSOLUTE, `${root}/`);

function follow(stage: Stage, stages: ReadonlyMap<string, Stage>, instruction: string, text: string): void {
  const cwd = join(stage.root, stage.workdir);
  if (instruction === 'WORKDIR') {
    stage.workdir = text;
    mkdirSync(join(stage.root, text), { recursive: true });
  } else if (instruction === 'ENV') {
    for (const setting of text.split(' ')) {
      const [name = '', value = ''] = setting.split('=');
      stage.environment[name] = onMachine(stage, value);
    }
  } else if (instruction === 'RUN') run(stage, cwd, text);
  else if (instruction === 'COPY') {
    // Modes are for the user of the image, who is none of this machine.
    const [, from, paths = ''] = /^(?:--from=(\S+) |--chmod=\d+ )?(.+)$/.exec(text) ?? [];
    copy(from === undefined ? ROOT : (stages.get(from)?.root ?? ''), from === undefined, paths.split(' '), cwd);
  } else if (instruction === 'USER') stage.user = NODE_USER;
  else if (instruction === 'ENTRYPOINT') stage.entrypoint = JSON.parse(text);
  else if (instruction === 'HEALTHCHECK') stage.healthcheck = JSON.parse(text.slice(text.indexOf('[')));
  else if (!NO_VALUE.includes(instruction))
    throw new Error(`The Dockerfile has an unknown instruction: ${instruction}`);
}

function run(stage: Stage, cwd: string, text: string): void {
  const command = onMachine(stage, text).replaceAll(/(--owner|--group)=node/g, `$1=${NODE_USER}`);
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, npm_config_prefer_offline: 'true', ...stage.environment };
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], { cwd, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${text}\n${stdout}${stderr}`);
}

/** The content of a folder goes to the target, and a file goes into a target that ends with a slash. */
function copy(source: string, isContext: boolean, paths: readonly string[], cwd: string): void {
  const target = join(cwd, paths.at(-1) ?? '');
  const isLetThrough = isContext ? readIgnored() : () => true;
  for (const path of paths.slice(0, -1)) {
    const file = join(source, path);
    if (!isLetThrough(path)) throw new Error(`.dockerignore keeps ${path} out of the image`);
    const isFile = statSync(file).isFile();
    cpSync(file, isFile && /\/$/.test(target) ? join(target, basename(path)) : target, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (each) => isLetThrough(relative(source, each)),
    });
  }
}

/** Tells which paths reach the builder: the last line that names a path, or a folder above it, decides. */
function readIgnored(): (path: string) => boolean {
  const lines = readFileSync(join(ROOT, '.dockerignore'), 'utf8').trim().split('\n');
  return (path) => {
    const names = (pattern: string) => pattern === '*' || path === pattern || path.startsWith(`${pattern}/`);
    const last = lines.findLast((line) => names(line.replace(/^!/, '')));
    // `!scripts/build.mjs` lets the folder `scripts` through as well, with that file only.
    return last === undefined || last.startsWith('!') || lines.some((line) => line.startsWith(`!${path}/`));
  };
}

function readInstructions(): [instruction: string, text: string][] {
  const lines = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
    .split('\n')
    .filter((line) => !line.startsWith('#') && line !== '');
  return lines
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => {
      const [instruction = ''] = line.split(' ', 1);
      return [instruction, line.slice(instruction.length + 1)];
    });
}
