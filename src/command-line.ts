import { settingDefaults } from './config.js';
import { serve } from './serve.js';
import { VERSION } from './version.js';

/** Does what the arguments ask for: without any it serves. An argument that is not known ends the process. */
export async function run(parameters: readonly string[]): Promise<void> {
  const unknown = parameters.find((parameter) => !['--help', '-h', '--version', '-v'].includes(parameter));
  if (unknown !== undefined) {
    console.error(
      `'${unknown}' is not an argument of Idempay: it has --help and --version, and settings in the environment.`,
    );
    process.exitCode = 1;
  } else if (parameters.some((parameter) => parameter.includes('h'))) {
    console.log(help());
  } else if (parameters.length > 0) {
    console.log(`idempay ${VERSION}`);
  } else {
    await serve();
  }
}

/** For tests alone, so not offered. */
const NOT_OFFERED = ['CRASH_AT'];

function help(): string {
  const settings = [...settingDefaults()]
    .filter(([name]) => !NOT_OFFERED.includes(name))
    .map(([name, fallback]) => `  ${name.padEnd(32)}${fallback}`);
  return [
    `Idempay ${VERSION} takes payments exactly once.`,
    '',
    'npm start               serves until SIGTERM or SIGINT; so does node dist/main.js, after npm run build',
    'npm start -- --help     this text',
    'npm start -- --version  the version',
    '',
    'Settings are environment variables, here with their defaults. .env.example says what each is for.',
    '',
    ...settings,
  ].join('\n');
}
