import type { Idempay, PaymentRequest, PayResult } from 'idempay/client';
import { keepOnce, keptText } from './keep-once.ts';

/**
 * Pays under the one key that `keyFile` keeps: now, again, after a crash, in any number of processes at once.
 *
 * Dies before the key is kept: nothing was sent, and the next call begins anew. Dies after it: the next call goes on with that key. So one
 * file is one charge at most. Rejects as `pay` and `resume` of the client do.
 */
export async function payOnce(idempay: Idempay, payment: PaymentRequest, keyFile: string): Promise<PayResult> {
  const known = await keptText(keyFile);
  if (known !== undefined) return idempay.payments.resume(known, payment);
  let other: string | undefined;
  try {
    return await idempay.payments.pay(payment, {
      async onKey(key) {
        const kept = await keepOnce(keyFile, key);
        if (kept === key) return;
        other = kept;
        // Nothing is sent with our key: another process has begun with its own.
        throw new Error('another key is kept for this payment');
      },
    });
  } catch (error) {
    if (other === undefined) throw error;
    return idempay.payments.resume(other, payment);
  }
}
