import type { ClaimAttempt } from '../../../payments/ports/ledger.js';
import {
  type Claim,
  type ExecutionNote,
  type Fence,
  type UnsentMark,
  unsentMarkOf,
} from '../../../payments/values/payment.js';
import { refusalOf } from '../../../payments/values/processor-names.js';
import type { Clock } from '../../../platform/clock.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import { abandonedEvent } from '../../shared/payment-rows.js';
import type { Reader } from '../reader.js';
import type { Writer } from '../writer/writer.js';
import { FOLDER_WORDS, readProcessorNames } from './processor-names.js';

/** The note in the timeline for a claim that was written after its request had been answered. */
const CLAIMED_LATE: ExecutionNote = { sent: false, cause: 'the claim was written too late for its request' };

/** The main thread's part of claims of payments and refunds. `clock` is the store's. */
export function createClaimWrites(writer: Writer, reader: Reader, clock: Clock) {
  const registered = new Set(readProcessorNames(reader).used);

  function abandon(
    { key, epoch, owner }: Fence,
    recoverAfterMs: number,
    mark?: UnsentMark,
    note?: ExecutionNote,
  ): Promise<boolean> {
    const event = abandonedEvent({ owner }, note ?? { sent: mark === undefined });
    return writer.write('abandon', { key, epoch, owner, recoverAfterMs, mark, event });
  }

  return {
    abandon,

    /**
     * Before the first claim of this process. No other process writes here, so the name stays. One that dies after this and before the
     * claim has set the kind of a store without payments; `idempay simulated discard` sets a simulated one back.
     */
    async register(processor: string): Promise<void> {
      if (registered.has(processor)) return;
      const used = await writer.write('registerProcessor', { processor });
      if (used) throw new StoreUnavailable('unchanged', refusalOf(processor, used, FOLDER_WORDS) ?? '');
      registered.add(processor);
    },

    /** The end of the claim by the store's clock. */
    claimBefore({ claimBy }: Pick<ClaimAttempt, 'claimBy'>): number {
      return Math.floor(clock.now() + claimBy - clock.monotonic());
    },

    /**
     * Abandons a claim that is committed after its caller was answered "unknown", so that the next repeat need not wait for the
     * end of its lease. Nothing was sent under it.
     */
    async claimInTime<T>(claiming: Promise<T>, claimsIn: (result: T) => readonly Claim[]): Promise<T> {
      const giveUp = (claim: Claim) => abandon(claim, 0, unsentMarkOf(claim), CLAIMED_LATE);
      return claiming.catch((fault: StoreUnavailable) => {
        const ended = fault.ended as Promise<T> | undefined;
        ended?.then((result) => Promise.all(claimsIn(result).map(giveUp))).catch(() => {});
        throw fault;
      });
    },
  };
}
