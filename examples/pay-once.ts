import { type Idempay, type PaymentRequest, type PayResult, UnusedKeyError } from '@idempay/client';
import { keepOnce, keptText } from './keep-once.ts';

/**
 * Pays under the newest key that is kept for `keyFile`: now, again, after a crash, in any number of processes at once.
 *
 * Dies before the key is kept: nothing was sent, and the next call begins anew. Dies after it: the next call goes on with that key, which
 * counts as sent. So one file is one charge at most. Rejects as `pay` and `resume` of the client do.
 */
export async function payOnce(idempay: Idempay, payment: PaymentRequest, keyFile: string): Promise<PayResult> {
  for (let number = 1; ; number += 1) {
    try {
      return await payUnderKeyIn(number === 1 ? keyFile : `${keyFile}.${number}`, idempay, payment);
    } catch (error) {
      // Only then is it certain that nothing was charged with the key, and that nothing will be: the next key has a row of its own.
      if (!(error instanceof UnusedKeyError)) throw error;
    }
  }
}

async function payUnderKeyIn(row: string, idempay: Idempay, payment: PaymentRequest): Promise<PayResult> {
  const known = await keptText(row);
  if (known !== undefined) return idempay.payments.resume(known, payment);
  let other: string | undefined;
  try {
    return await idempay.payments.pay(payment, {
      async onKey(key) {
        const kept = await keepOnce(row, key);
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
