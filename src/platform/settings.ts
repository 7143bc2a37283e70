import { readAuthorities, readSecret, type SettingFile } from './setting-files.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings that may have a password or a key. Each can be given as the file that NAME_FILE names, too. */
const SECRETS: readonly string[] = ['REDIS_URL', 'DATABASE_URL', 'PROCESSOR_URL', 'OTEL_EXPORTER_OTLP_HEADERS'];

/** Typed look-ups that collect problems instead of throwing at the first. An empty setting counts as unset (G3). */
export class Settings {
  /** The default of everything that was asked for, in that order. */
  readonly defaults = new Map<string, string>();
  /** The files of secrets, as they were read. */
  readonly secretFiles: SettingFile[] = [];
  private readonly values: Record<string, string | undefined>;
  /** Secrets that are given and cannot be read. */
  private readonly unreadable = new Set<string>();

  constructor(
    environment: Environment,
    private readonly problems: string[],
  ) {
    this.values = { ...environment };
    for (const name of SECRETS) this.readSecretFile(name);
  }

  problem(sentence: string): void {
    this.problems.push(sentence);
  }

  text(name: string, fallback: string): string {
    return this.raw(name, fallback) ?? fallback;
  }

  optional(name: string): string | undefined {
    return this.raw(name);
  }

  integer(name: string, fallback: number, least: number, most: number): number {
    const raw = this.raw(name, String(fallback));
    if (raw === undefined) return fallback;
    const value = /^\d{1,16}$/.test(raw) ? Number(raw) : Number.NaN;
    if (value >= least && value <= most) return value;
    this.problem(`${name} must be a whole number from ${least} to ${most}, not '${raw}'`);
    return fallback;
  }

  choice<T extends string>(name: string, fallback: T, choices: readonly T[]): T {
    const raw = this.raw(name, String(fallback));
    if (raw === undefined) return fallback;
    const chosen = choices.find((choice) => choice === raw);
    if (chosen !== undefined) return chosen;
    this.problem(`${name} must be one of ${choices.join(', ')}, not '${raw}'`);
    return fallback;
  }

  has(name: string): boolean {
    return this.unreadable.has(name) || this.raw(name) !== undefined;
  }

  /** The setting's own text is kept out of the problem: it may hold a password. */
  parsed<T>(name: string, parse: (text: string) => T | undefined, forms: string): T | undefined {
    const raw = this.raw(name);
    if (raw === undefined) return undefined;
    const value = parse(raw);
    if (value === undefined) this.problem(`${name} must have the form ${forms}`);
    return value;
  }

  /** The PEM certificates of the file that the setting names. */
  authorities(name: string): SettingFile | undefined {
    const path = this.raw(name);
    if (path === undefined) return undefined;
    const read = readAuthorities(path);
    if ('text' in read) return { name, path, text: read.text };
    this.problem(fileProblem(name, path, read.problem));
    return undefined;
  }

  private raw(name: string, fallback = 'unset'): string | undefined {
    if (!this.defaults.has(name)) this.defaults.set(name, fallback);
    const fileName = fileNameOf(name);
    if (SECRETS.includes(name) && !this.defaults.has(fileName)) this.defaults.set(fileName, 'unset');
    const raw = this.values[name]?.trim();
    return raw === '' ? undefined : raw;
  }

  private readSecretFile(name: string): void {
    const fileName = fileNameOf(name);
    const path = this.values[fileName]?.trim();
    if (!path) return;
    if (this.values[name]?.trim()) {
      this.problem(`${name} and ${fileName} are both set: remove one of them`);
      return;
    }
    const read = readSecret(path);
    if ('problem' in read) {
      this.unreadable.add(name);
      this.problem(fileProblem(fileName, path, read.problem));
      return;
    }
    this.values[name] = read.text;
    this.secretFiles.push({ name: fileName, path, text: read.text });
  }
}

/** A URL in the place of the path may hold a password, and is kept out. */
function fileProblem(name: string, path: string, problem: string): string {
  return path.includes('://') ? `${name} names a URL, not a file` : `${name}: ${path} ${problem}`;
}

function fileNameOf(name: string): string {
  return `${name}_FILE`;
}
