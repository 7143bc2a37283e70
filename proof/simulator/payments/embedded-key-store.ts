import type { Clock } from '#idempay/clock.js';
import { createEmbeddedKeyStore } from '#idempay/deployments/embedded/key-store.js';
import type { Reader } from '#idempay/deployments/embedded/reader.js';
import { createStoreCounters } from '#idempay/deployments/embedded/store-counters.js';
import type { WriteName } from '#idempay/deployments/embedded/write-operations.js';
import type { Writer } from '#idempay/deployments/embedded/writer.js';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';

/** What ended without giving back its locks stays in a shared store until it is replaced. */
const LIVES_OF_A_STORE = 2_000;

let shared: ReturnType<typeof createSharedStore> | undefined;

/**
 * The real adapter for one life of a process. Its memory has room for a hundred thousand records and takes milliseconds to
 * make, as long as a whole history does; so one serves many lives, each with keys of its own.
 */
export function openEmbeddedKeyStore(writer: Writer, reader: Reader, clock: Clock, broken: string[]): KeyStore {
  if (!shared || shared.lives >= LIVES_OF_A_STORE) shared = createSharedStore();
  return shared.open(writer, reader, clock, broken);
}

function createSharedStore() {
  let lives = 0;
  let current: { writer: Writer; reader: Reader; clock: Clock } | undefined;
  const now = () => {
    if (!current) throw new Error('nobody lives');
    return current;
  };
  const keyOf = (name: string) => name.slice(name.indexOf('/') + 1);

  const writer = {
    write: (operation: WriteName, input: { readonly key: string }) =>
      (now().writer.write as (name: WriteName, input: object) => Promise<unknown>)(operation, {
        ...input,
        key: keyOf(input.key),
      }),
  } as unknown as Writer;
  const reader = {
    prepare: (sql: string) => ({ get: (name: string) => now().reader.prepare(sql).get(keyOf(name)) }),
  } as unknown as Reader;
  const clock: Clock = {
    now: () => now().clock.now(),
    monotonic: () => now().clock.monotonic(),
    after: (ms, callBack) => now().clock.after(ms, callBack),
  };
  const store = createEmbeddedKeyStore(writer, reader, clock, createStoreCounters());

  return {
    get lives() {
      return lives;
    },
    /** The life before has ended: nothing of it runs any more. */
    open(...[ownWriter, ownReader, ownClock, broken]: Parameters<typeof openEmbeddedKeyStore>): KeyStore {
      lives += 1;
      const life = `${lives}/`;
      current = { writer: ownWriter, reader: ownReader, clock: ownClock };
      const holders = new Map<string, string>();

      /** What no store may ever do: give a lock back for somebody who does not hold it. */
      async function unlock(key: string, owner: string, work: () => Promise<void>): Promise<void> {
        // All three are done when they are called: nothing comes between them.
        const [before, done, after] = [store.look(life + key), work(), store.look(life + key)];
        const isGone = (await before).state === 'locked' && (await after).state !== 'locked';
        if (isGone && holders.get(key) !== owner)
          broken.push(`${key}: ${owner} deleted the lock of ${holders.get(key)}`);
        await done;
      }

      return {
        issue: (key, ttlMs) => store.issue(life + key, ttlMs),
        async begin(attempt) {
          const begun = await store.begin({ ...attempt, key: life + attempt.key });
          if (begun.state === 'taken') holders.set(attempt.key, attempt.owner);
          return begun;
        },
        look: (key) => store.look(life + key),
        watch: (key, onEnd) => store.watch(life + key, onEnd),
        finish: (key, owner, final) => unlock(key, owner, () => store.finish(life + key, owner, final)),
        release: (key, owner) => unlock(key, owner, () => store.release(life + key, owner)),
      };
    },
  };
}
