import type { PaymentReference, PaymentRequest, PayResult } from '#idempay/client';
import { commandName } from '../command-name.js';
import { type Connection, type ConnectionOptions, connect } from '../connection.js';
import { type OutputOptions, printRecord } from '../output/results.js';
import { report } from '../output/terminal.js';
import { UsageError } from '../usage.js';
import { forgetPayment, keepPayment, newestPayment } from './key-file.js';
import { metadataIn } from './metadata.js';

export interface PayOptions
  extends ConnectionOptions,
    OutputOptions,
    Omit<PaymentRequest, 'metadata'>,
    Partial<PaymentReference> {
  /** Each is `NAME=VALUE`. */
  readonly metadata?: readonly string[] | undefined;
  readonly resume?: string | undefined;
  readonly keyFile?: string | undefined;
}

/**
 * `idempay pay`. With `--reference`, or with `--key-file`, the same command may be run again, however it ended, and pays once. Without a
 * reference the key is printed and stored in `onKey`, before the client sends the payment.
 */
export async function pay(options: PayOptions): Promise<void> {
  const { amount, currency, source, description, resume, keyFile, reference } = options;
  refuseContradictions(options);
  const payment = { amount, currency, source, description, metadata: metadataIn(options.metadata) };
  if (keyFile !== undefined) refuseOtherPayment(keyFile, payment);
  const connection = await connect(options);
  let result: PayResult;
  try {
    if (reference !== undefined)
      result = await payReference(connection, { reference, attempt: options.attempt }, payment);
    else if (resume !== undefined) result = await resumeKey(connection, resume, payment, options);
    else if (keyFile === undefined) result = await payNew(connection, payment, options, () => {});
    else result = await payWithFile(connection, keyFile, payment, options);
  } catch (error) {
    throw withAdvice(error as Error, options);
  }
  await tellPaid(result, payment, options);
}

function refuseContradictions({ resume, keyFile, reference, attempt }: PayOptions): void {
  if (reference !== undefined && (keyFile !== undefined || resume !== undefined)) {
    throw new UsageError('Give --reference without --key-file and --resume: its key has not to be kept.');
  }
  if (reference === undefined && attempt !== undefined) throw new UsageError('--attempt belongs to --reference.');
  if (resume !== undefined && keyFile !== undefined) {
    throw new UsageError('Give --resume or --key-file, not both: the file holds its key.');
  }
}

/** With a reference no key is printed or kept first, because the same command continues the payment after a crash. */
function payReference(
  { idempay, call }: Connection,
  named: PaymentReference,
  payment: PaymentRequest,
): Promise<PayResult> {
  return idempay.payments.pay(payment, { ...named, ...call });
}

/** Another command has kept a key for the same payment first. */
class KeptByAnother extends Error {}

/** Pays under the newest key of the file. Another one is taken only if the service is certain that nothing is charged with it. */
async function payWithFile(
  connection: Connection,
  keyFile: string,
  payment: PaymentRequest,
  options: PayOptions,
): Promise<PayResult> {
  let unusedKey: string | undefined;
  for (;;) {
    const { kept, nextPath } = newestPayment(keyFile);
    try {
      if (kept === undefined || kept.idempotencyKey === unusedKey) {
        return await payAndKeep(connection, nextPath, payment, options);
      }
      refuseOtherPayment(keyFile, payment);
      return await resumeKey(connection, kept.idempotencyKey, payment, options);
    } catch (error) {
      if (error instanceof KeptByAnother) {
        refuseIfInUse(keyFile, nextPath);
        continue;
      }
      const isUnused = (error as Error).name === 'UnusedKeyError';
      if (!isUnused || kept === undefined || kept.idempotencyKey === unusedKey) throw error;
      unusedKey = kept.idempotencyKey;
      await tell('The kept key has expired, and nothing was charged with it: another one is taken.', options);
    }
  }
}

/** Throws unless the key of the other command can be read by now, so that this command goes on with it. */
function refuseIfInUse(keyFile: string, path: string): void {
  if (newestPayment(keyFile).nextPath !== path) return;
  throw new UsageError(`${path} is in use by another command, so nothing was sent. Run this one again.`);
}

async function payAndKeep(
  connection: Connection,
  path: string,
  payment: PaymentRequest,
  options: PayOptions,
): Promise<PayResult> {
  let keptKey: string | undefined;
  try {
    return await payNew(connection, payment, options, (key) => {
      const { amount, currency } = payment;
      if (!keepPayment(path, { idempotencyKey: key, amount, currency })) throw new KeptByAnother();
      keptKey = key;
    });
  } catch (error) {
    // The content is refused for every command that has this file, so none can have paid with the key.
    const { name, status } = error as Error & { status?: number };
    if (name === 'InvalidRequestError' && status === 400 && keptKey !== undefined) forgetPayment(path, keptKey);
    throw error;
  }
}

async function payNew(
  { idempay, call }: Connection,
  payment: PaymentRequest,
  options: PayOptions,
  keep: (key: string) => void,
): Promise<PayResult> {
  try {
    return await idempay.payments.pay(payment, {
      ...call,
      async onKey(key) {
        keep(key);
        const isTold = await tellKey(key, options);
        if (!isTold && options.keyFile === undefined) {
          throw new UsageError(
            'The key cannot be written to standard error, so nothing was sent. Add --key-file FILE.',
          );
        }
      },
    });
  } catch (error) {
    // The cause is what onKey threw.
    const cause = (error as Error).cause;
    throw cause instanceof UsageError || cause instanceof KeptByAnother ? cause : error;
  }
}

async function resumeKey(
  { idempay, call }: Connection,
  key: string,
  payment: PaymentRequest,
  options: PayOptions,
): Promise<PayResult> {
  await tellKey(key, options);
  return idempay.payments.resume(key, payment, call);
}

function refuseOtherPayment(keyFile: string, { amount, currency }: PaymentRequest): void {
  const { kept } = newestPayment(keyFile);
  if (kept === undefined || (kept.amount === amount && kept.currency === currency)) return;
  throw new UsageError(
    `${keyFile} belongs to the payment of ${kept.amount} ${kept.currency}. Give that amount and currency to go on with it, or name another file.`,
  );
}

function tellKey(key: string, { json }: OutputOptions): Promise<boolean> {
  return report(json ? JSON.stringify({ idempotencyKey: key }) : `Idempotency-Key: ${key}`);
}

/** For a person; with `--json` standard error has documents only. */
async function tell(sentence: string, { json }: OutputOptions): Promise<void> {
  if (!json) await report(sentence);
}

/** The key has paid something else, which is not what the caller asked for. */
class OtherPaymentError extends Error {
  override readonly name = 'MismatchError';
  constructor(
    message: string,
    readonly key: string,
  ) {
    super(message);
  }
}

async function tellPaid(result: PayResult, wanted: PaymentRequest, options: PayOptions): Promise<void> {
  const { transactionId, amount, currency, replayed, key, attempts } = result;
  const { reference, attempt = 1 } = options;
  const named = reference !== undefined && { reference, attempt };
  await printRecord({ transactionId, amount, currency, replayed, ...named, idempotencyKey: key, attempts }, options);
  if (amount === null || currency === null) {
    await tell('The amount that was paid could not be read. It needs the scope payments:read.', options);
    return;
  }
  const { isSamePayment } = await import('#idempay/client');
  if (isSamePayment(result, wanted)) return;
  throw new OtherPaymentError(
    `This key has paid ${amount} ${currency}, and not ${wanted.amount} ${wanted.currency}, which is not paid with it.`,
    key,
  );
}

/** Adds what helps after an outcome that is not known. */
function withAdvice(error: Error, options: PayOptions): Error {
  const { amount, currency, keyFile, resume, reference } = options;
  const { key } = error as Error & { key?: string };
  const again =
    keyFile === undefined && reference === undefined
      ? `${commandName()} pay --resume ${key} --amount ${amount} --currency ${currency}${contentAgain(options)}`
      : 'the same command again';
  const afterwards = keyFile === undefined ? 'pay anew' : `remove ${keyFile} and run the command again`;
  const advice: Readonly<Record<string, string>> = {
    UnknownOutcomeError: `To go on: ${again}`,
    DeadKeyError: `Trying again does not help: look for the key ${key} at the processor, where it is the reference of the charge. Only if it is certain that nothing was charged there: ${afterwards}.`,
    ...(resume !== undefined && { UnusedKeyError: 'To pay: the same command without --resume.' }),
  };
  if (advice[error.name] !== undefined) error.message += `\n${advice[error.name]}`;
  return error;
}

/** Its content is named, and not repeated: standard error is often kept in a log, and no source belongs there. */
function contentAgain({ source, description, metadata }: PayOptions): string {
  const given = Object.entries({ source, description, metadata }).filter(([, value]) => value !== undefined);
  const names = given.map(([name]) => `--${name}`);
  return names.length === 0 ? '' : `, with the same ${names.join(', ').replace(/, (?=[^,]*$)/, ' and ')} as before`;
}
