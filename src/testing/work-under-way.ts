/** Requests that fakes of this process are answering: `TestClock` lets no time pass meanwhile. */
let count = 0;

export const workUnderWay = {
  get is(): boolean {
    return count > 0;
  },

  async during<T>(work: () => Promise<T>): Promise<T> {
    count += 1;
    try {
      return await work();
    } finally {
      count -= 1;
    }
  },
};
