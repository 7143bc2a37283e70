/** Stops the whole process, as a machine that is paused does: nothing is read, and timers become due. */
export function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
