import { KeyFileError } from './access/api-keys.js';
import { BACKUP_USAGE, backupCommand } from './commands/backup.js';
import { DOCTOR_USAGE, doctorCommand } from './commands/doctor.js';
import { KEYS_USAGE, keysCommand } from './commands/keys.js';
import { UsageError } from './commands/usage.js';
import { ConfigError, settingDefaults } from './config.js';
import { CannotOpen } from './deployments/deployment.js';
import { serve } from './serve.js';
import { VERSION } from './version.js';

/** Does what the arguments ask for: without any it serves. An argument that is not known ends the process. */
export async function run(parameters: readonly string[]): Promise<void> {
  const [command, ...rest] = parameters;
  try {
    switch (command) {
      case undefined:
        await serve();
        return;
      case 'backup':
        await backupCommand(rest, process.env);
        return;
      case 'doctor':
        // A store that hangs would not close its connection.
        process.exit(await doctorCommand(rest, process.env));
        return;
      case 'keys':
        keysCommand(rest, process.env);
        return;
      case '--help':
      case '-h':
        console.log(help());
        return;
      case '--version':
      case '-v':
        console.log(`idempay ${VERSION}`);
        return;
      default:
        throw new UsageError(`'${command}' is not an argument of Idempay: '--help' shows those there are.`);
    }
  } catch (error) {
    if (!isMistake(error)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

/** A mistake of the person at the command line: one sentence, no stack. */
function isMistake(error: unknown): error is Error {
  const { code } = error as NodeJS.ErrnoException;
  return (
    error instanceof UsageError ||
    error instanceof KeyFileError ||
    error instanceof ConfigError ||
    error instanceof CannotOpen ||
    code?.startsWith('ERR_PARSE_ARGS') === true ||
    (error as NodeJS.ErrnoException).syscall !== undefined
  );
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
    'npx idempay              serves until SIGTERM or SIGINT; so do npm start and node dist/main.js',
    'npx idempay --help       this text',
    'npx idempay --version    the version',
    KEYS_USAGE,
    BACKUP_USAGE,
    DOCTOR_USAGE,
    '',
    'Settings are environment variables, here with their defaults. .env.example says what each is for.',
    '',
    ...settings,
  ].join('\n');
}
