/** The processor is there, and fails, delays or loses some of its replies: what it did not charge is not sent again blindly. */
export const PROCESSOR_REPLIES = 'replies of the processor';

/** The data that Redis may have lost: everything, or only the writes of that time. */
export type Forgets = 'everything' | 'the latest';

export interface Disturbance {
  /** The name of a service process, or `redis`, `postgres`, `processor`, `disk`. */
  readonly of: string;
  readonly from: number;
  to: number;
  readonly forgets?: Forgets | undefined;
}

/** All disturbances with their times; the checkers look up the reason for each refusal here. */
export class Disturbances {
  readonly all: Disturbance[] = [];

  /** It lasts until the function that is returned is called. */
  begin(of: string, forgets?: Forgets): () => void {
    const disturbance: Disturbance = { of, from: performance.now(), to: Number.POSITIVE_INFINITY, forgets };
    this.all.push(disturbance);
    return () => {
      disturbance.to = performance.now();
    };
  }

  async during<T>(of: string, work: () => Promise<T> | T, forgets?: Forgets): Promise<T> {
    const end = this.begin(of, forgets);
    try {
      return await work();
    } finally {
      end();
    }
  }
}

export function wasDisturbed(all: readonly Disturbance[], of: readonly string[], from: number, to: number): boolean {
  return all.some((each) => of.includes(each.of) && each.from <= to && each.to >= from);
}
