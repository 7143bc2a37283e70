export type Environment = Readonly<Record<string, string | undefined>>;

/** Typed look-ups that collect problems instead of throwing at the first. An empty setting counts as unset (G3). */
export class Settings {
  /** The default of everything that was asked for, in that order. */
  readonly defaults = new Map<string, string>();

  constructor(
    private readonly environment: Environment,
    private readonly problems: string[],
  ) {}

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
    return this.raw(name) !== undefined;
  }

  /** The setting's own text is kept out of the problem: it may hold a password. */
  parsed<T>(name: string, parse: (text: string) => T | undefined, forms: string): T | undefined {
    const raw = this.raw(name);
    if (raw === undefined) return undefined;
    const value = parse(raw);
    if (value === undefined) this.problem(`${name} must have the form ${forms}`);
    return value;
  }

  private raw(name: string, fallback = 'unset'): string | undefined {
    if (!this.defaults.has(name)) this.defaults.set(name, fallback);
    const raw = this.environment[name]?.trim();
    return raw === '' ? undefined : raw;
  }
}
