/** Requests that fakes of this process are answering: `TestClock` lets no time pass meanwhile. */
let count = 0;
/** The longest that a timer of Node.js takes. */
const LONGEST_MS = 2_147_483_647;
/**
 * Keeps the process alive while `count` is above 0, because the things that a request waits for do not: a connection in memory, and timers
 * of the service. It is made once, so that fake timers that a test installs later have no part in it.
 */
const alive = setInterval(() => {}, LONGEST_MS).unref();

export const workUnderWay = {
  get is(): boolean {
    return count > 0;
  },

  async during<T>(work: () => Promise<T>): Promise<T> {
    count += 1;
    alive.ref();
    try {
      return await work();
    } finally {
      count -= 1;
      if (count === 0) alive.unref();
    }
  },
};
