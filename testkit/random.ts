/** A seeded stream of choices: the same seed makes the same choices, so that a run that failed can be asked for again. */
export interface Random {
  fraction(): number;
  /** A whole number from 0 up to, not including, `limit`. */
  below(limit: number): number;
  pick<T>(items: readonly T[]): T;
  /** An independent stream, so that what one client chooses does not depend on when another one chooses. */
  fork(): Random;
}

/** Mulberry32: 32 bits of state are plenty for choosing among a few operations. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const fraction = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(fraction() * limit);
  return {
    fraction,
    below,
    pick: <T>(items: readonly T[]): T => {
      if (items.length === 0) throw new Error('nothing to pick from');
      return items[below(items.length)] as T;
    },
    fork: () => seededRandom(below(2 ** 32)),
  };
}

/** The seed named by an environment variable, or `usual`, or a fresh one; printed, so that a failure can be repeated with it. */
export function seedFrom(variable: string, usual?: number): number {
  const given = process.env[variable];
  const seed = given ? Number(given) : (usual ?? Math.floor(Math.random() * 2 ** 32));
  if (!Number.isSafeInteger(seed)) throw new Error(`${variable} must be a whole number, not ${given}`);
  console.log(`${variable}=${seed}`);
  return seed;
}
