import type { PaymentRequest, PayResult } from 'idempay/client';
import { type Connection, type ConnectionOptions, connect } from '../connection.js';
import { type OutputOptions, printRecord } from '../output/results.js';
import { UsageError } from '../usage.js';
import { forgetPayment, keepPayment, keptPayment } from './key-file.js';

export interface PayOptions extends ConnectionOptions, OutputOptions, PaymentRequest {
  readonly resume?: string | undefined;
  readonly keyFile?: string | undefined;
}

/**
 * `idempay pay`. The key is printed and stored in `onKey`, before the client sends the payment. With `--key-file` the same command may
 * be run again, however it ended, and pays once.
 */
export async function pay(options: PayOptions): Promise<void> {
  const { amount, currency, resume, keyFile } = options;
  if (resume !== undefined && keyFile !== undefined) {
    throw new UsageError('Give --resume or --key-file, not both: the file holds its key.');
  }
  const payment = { amount, currency };
  const kept = keyFile === undefined ? undefined : keptPayment(keyFile);
  if (kept) refuseOtherPayment(kept, payment, keyFile);
  const connection = await connect(options);
  const key = resume ?? kept?.idempotencyKey;
  if (key !== undefined) tellKey(key, options);
  try {
    const { transactionId, replayed, attempts, ...result } =
      key === undefined
        ? await payNew(connection, payment, options)
        : await connection.idempay.payments.resume(key, payment, connection.call);
    await printRecord({ transactionId, replayed, idempotencyKey: result.key, attempts }, options);
  } catch (error) {
    throw withAdvice(error as Error, options);
  }
}

async function payNew({ idempay, call }: Connection, payment: PaymentRequest, options: PayOptions): Promise<PayResult> {
  const { keyFile } = options;
  let keptFile: string | undefined;
  try {
    return await idempay.payments.pay(payment, {
      ...call,
      onKey(key) {
        if (keyFile !== undefined) keepPayment(keyFile, { idempotencyKey: key, ...payment });
        keptFile = keyFile;
        tellKey(key, options);
      },
    });
  } catch (error) {
    const { InvalidRequestError } = await import('idempay/client');
    // The cause is the sentence of this program that onKey threw.
    const cause = (error as Error).cause;
    if (cause instanceof UsageError) throw cause;
    // Another command may be using the key by now. The file is removed only for refused content, which that command cannot pay either.
    if (error instanceof InvalidRequestError && keptFile !== undefined) forgetPayment(keptFile);
    throw error;
  }
}

function refuseOtherPayment(kept: PaymentRequest, { amount, currency }: PaymentRequest, keyFile = ''): void {
  if (kept.amount === amount && kept.currency === currency) return;
  throw new UsageError(
    `${keyFile} belongs to the payment of ${kept.amount} ${kept.currency}. Give that amount and currency to go on with it, or name another file.`,
  );
}

function tellKey(key: string, { json }: OutputOptions): void {
  console.error(json ? JSON.stringify({ idempotencyKey: key }) : `Idempotency-Key: ${key}`);
}

/** Adds the command that continues the payment after an unknown outcome. */
function withAdvice(error: Error, { amount, currency, keyFile }: PayOptions): Error {
  if (error.name !== 'UnknownOutcomeError') return error;
  const { key } = error as Error & { key: string };
  const again =
    keyFile === undefined
      ? `idempay pay --resume ${key} --amount ${amount} --currency ${currency}`
      : 'the same command again';
  error.message += `\nTo go on: ${again}`;
  return error;
}
