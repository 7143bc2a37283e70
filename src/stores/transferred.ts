import { type Clock, sleep } from '../platform/clock.js';
import { StoreUnavailable } from '../platform/faults.js';
import type { Postgres } from './postgres/connection/postgres.js';
import { untilPostgresIsThere } from './postgres/connection/start.js';
import { givenUpTarget, startTransferred, type Transfer } from './postgres/transfer-state.js';
import { refuseOtherTransfer, type TransferMark } from './redis/transfer-mark.js';
import type { CannotOpen, Notices } from './shared/deployment.js';
import { REPLACED } from './shared/replaced-database.js';

const TRY_AGAIN_MS = 500;

/**
 * A start on stores that `idempay transfer` made (docs/engineering/decisions/0081). The first one waits for Redis, because the name there
 * and the state of the database decide together. A later one serves without Redis as well: then the name is looked at as soon as Redis
 * answers, and `onOther` is called if it is another one. Throws CannotOpen.
 */
export async function startOnTransferred(
  { name, state }: Transfer,
  { database, mark }: { readonly database: Postgres; readonly mark: TransferMark },
  { clock, notices, onOther }: { clock: Clock; notices: Notices; onOther(error: CannotOpen): void },
): Promise<{ stop(): void }> {
  let stopped = false;
  let cancelNext = () => {};

  /**
   * Redis first: if it knows of a start that the database does not know of, the database was restored; and if the transfer was given up
   * there, its folder serves, whatever the database was set back to. It is asked again after the start, which a cancel may have overtaken.
   */
  async function join(): Promise<void> {
    const found = await mark.claim(name);
    if (found.isGivenUp) throw givenUpTarget();
    refuseOtherTransfer(found, name);
    await untilPostgresIsThere(
      async () => {
        if (await startTransferred(database, found.isStarted)) notices.warn(REPLACED);
      },
      (sentence, cause) => notices.warn(sentence, cause),
    );
    const { isGivenUp } = await mark.start(name);
    if (isGivenUp) throw givenUpTarget();
  }

  function joinLater(): void {
    if (stopped) return;
    cancelNext = clock.after(TRY_AGAIN_MS, () => {
      join().catch((error: Error) => (error instanceof StoreUnavailable ? joinLater() : onOther(error as CannotOpen)));
    });
  }

  for (let reported = false; ; ) {
    try {
      await join();
      break;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      if (state === 'STARTED') {
        joinLater();
        break;
      }
      if (!reported) notices.warn('The first start after a transfer waits until Redis can be reached', error);
      reported = true;
    }
    await sleep(clock, TRY_AGAIN_MS);
  }
  return {
    stop() {
      stopped = true;
      cancelNext();
    },
  };
}
