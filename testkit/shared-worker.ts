import fc from 'fast-check';
import { afterAll, expect, vi } from 'vitest';
import { TRIES_ALL } from './cases.js';

// Every push tries the same cases, so that it is refused for its own change only. The long tests try fresh ones.
if (!TRIES_ALL) fc.configureGlobal({ seed: 1 });

/** Looked at are all but `exit`, to which the logger listens while it has open streams, and `unhandledRejection`, to which the simulator listens for good. */
const LISTENED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'warning', 'uncaughtException'];

/**
 * The files of a project without isolation run one after the other in the same process, so a file must leave the process as
 * it found it. One that does not fails here, and not in whichever file comes next.
 */
const found = stateOfProcess();

afterAll(() => {
  expect(stateOfProcess(), 'this file changed the process that it shares with others').toEqual(found);
});

function stateOfProcess() {
  return {
    environment: { ...process.env },
    exitCode: process.exitCode,
    folder: process.cwd(),
    listeners: LISTENED.map((name) => [name, process.listenerCount(name)]),
    fetch: globalThis.fetch,
    hasFakeTimers: vi.isFakeTimers(),
  };
}
