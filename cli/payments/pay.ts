import type {
  PayOptions as ClientOptions,
  Idempay,
  PaymentReference,
  PaymentRequest,
  PayResult,
  PendingResult,
  PresentPaymentRequest,
  PresentPayResult,
} from '#idempay/client';
import { commandName } from '../command-name.js';
import { type Connection, type ConnectionOptions, connect } from '../connection.js';
import { EXIT } from '../exit-codes.js';
import { type OutputOptions, printRecord } from '../output/results.js';
import { report } from '../output/terminal.js';
import { UsageError } from '../usage.js';
import { forgetPayment, keepPayment, newestPayment } from './key-file.js';
import { metadataIn } from './metadata.js';
import { isPending, StillPendingError, waitForOutcome } from './waiting.js';

export interface PayOptions
  extends ConnectionOptions,
    OutputOptions,
    Omit<PaymentRequest, 'metadata' | 'returnUrl'>,
    Partial<PaymentReference> {
  /** Each is `NAME=VALUE`. */
  readonly metadata?: readonly string[] | undefined;
  readonly resume?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly returnUrl?: string | undefined;
  /** Goes on asking while the payment is pending. */
  readonly wait?: true | undefined;
}

type Wanted = PaymentRequest | PresentPaymentRequest;
type Result = PayResult | PresentPayResult;

/**
 * `idempay pay`. With `--reference`, or with `--key-file`, the same command may be run again, however it ended, and pays once. Without a
 * reference the key is printed and stored in `onKey`, before the client sends the payment. Resolves to the exit code.
 */
export async function pay(options: PayOptions): Promise<number> {
  const { amount, currency, source, description, returnUrl, resume, keyFile, reference } = options;
  refuseContradictions(options);
  const content = { amount, currency, source, description, metadata: metadataIn(options.metadata) };
  const payment: Wanted = returnUrl === undefined ? content : { ...content, returnUrl };
  if (keyFile !== undefined) refuseOtherPayment(keyFile, payment);
  const connection = await connect(options);
  let result: Result;
  try {
    if (reference !== undefined)
      result = await payReference(connection, { reference, attempt: options.attempt }, payment);
    else if (resume !== undefined) result = await resumeKey(connection, resume, payment, options);
    else if (keyFile === undefined) result = await payNew(connection, payment, options, () => {});
    else result = await payWithFile(connection, keyFile, payment, options);
    if (isPending<PendingResult>(result) && options.wait)
      result = await waitForPayer(connection, result, payment, options);
  } catch (error) {
    if (error instanceof StillPendingError) await tellPending(error.last, options);
    throw withAdvice(error as Error, options);
  }
  if (isPending<PendingResult>(result)) {
    await tellPending(result, options);
    return EXIT.pending;
  }
  await tellPaid(result, payment, options);
  return EXIT.done;
}

/**
 * The client has one signature for each kind of payment and of options, so that a caller has to look at the result of one that may be pending,
 * and knows whether there is a reference. The command gets both kinds from its user.
 */
function payBy({ payments }: Idempay, payment: Wanted, options: ClientOptions): Promise<Result> {
  const pay = payments.pay as (payment: Wanted, options: ClientOptions) => Promise<Result>;
  return pay(payment, options);
}

function resumeBy({ payments }: Idempay, key: string, payment: Wanted, call: Connection['call']): Promise<Result> {
  return payment.returnUrl === undefined ? payments.resume(key, payment, call) : payments.resume(key, payment, call);
}

async function waitForPayer(
  { idempay, call }: Connection,
  first: PendingResult,
  payment: Wanted,
  options: PayOptions,
): Promise<PayResult> {
  const { reference, attempt = 1 } = options;
  const named = { key: first.key, ...(reference !== undefined && { reference, attempt }) };
  await tell(sentenceOf(first), options);
  return waitForOutcome<PendingResult, PayResult>(first, { what: 'payment', named, signal: call.signal }, () =>
    reference === undefined
      ? resumeBy(idempay, first.key, payment, call)
      : payBy(idempay, payment, { reference, attempt, ...call }),
  );
}

/**
 * Prints the address of the payer. It is for the payer only, so no log of the command has it; a caller that keeps standard output keeps it.
 */
async function tellPending({ until, action, key, attempts }: PendingResult, options: PayOptions): Promise<void> {
  const { reference, attempt = 1 } = options;
  const named = reference !== undefined && { reference, attempt };
  const shown = options.json ? { action } : action;
  const record = { ...shown, state: 'pending', until, ...named };
  await printRecord({ ...record, idempotencyKey: key, attempts }, options);
}

const sentenceOf = ({ until, action }: PendingResult) =>
  action?.url === undefined
    ? `The payment is pending, until ${until}.`
    : `The payer has to confirm the payment, until ${until}: ${action.url}`;

function refuseContradictions({ resume, keyFile, reference, attempt, returnUrl, wait }: PayOptions): void {
  if (wait && returnUrl === undefined) throw new UsageError('--wait belongs to --return-url.');
  if (reference !== undefined && (keyFile !== undefined || resume !== undefined)) {
    throw new UsageError('Give --reference without --key-file and --resume: its key has not to be kept.');
  }
  if (reference === undefined && attempt !== undefined) throw new UsageError('--attempt belongs to --reference.');
  if (resume !== undefined && keyFile !== undefined) {
    throw new UsageError('Give --resume or --key-file, not both: the file holds its key.');
  }
}

/** With a reference no key is printed or kept first, because the same command continues the payment after a crash. */
function payReference({ idempay, call }: Connection, named: PaymentReference, payment: Wanted): Promise<Result> {
  return payBy(idempay, payment, { ...named, ...call });
}

/** Another command has kept a key for the same payment first. */
class KeptByAnother extends Error {}

/** Pays under the newest key of the file. Another one is taken only if the service is certain that nothing is charged with it. */
async function payWithFile(
  connection: Connection,
  keyFile: string,
  payment: Wanted,
  options: PayOptions,
): Promise<Result> {
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

/**
 * Every command with the same file has its amount and currency, so none can pay with the key. Anything else, such as a source, may be right
 * in another command, which may be paying with the key now.
 */
const ABOUT_MONEY = /^'(?:amount|currency)' /;

async function payAndKeep(connection: Connection, path: string, payment: Wanted, options: PayOptions): Promise<Result> {
  let keptKey: string | undefined;
  try {
    return await payNew(connection, payment, options, (key) => {
      const { amount, currency } = payment;
      if (!keepPayment(path, { idempotencyKey: key, amount, currency })) throw new KeptByAnother();
      keptKey = key;
    });
  } catch (error) {
    const { name, status, message } = error as Error & { status?: number };
    const isMoneyRefused = name === 'InvalidRequestError' && status === 400 && ABOUT_MONEY.test(message);
    if (isMoneyRefused && keptKey !== undefined) forgetPayment(path, keptKey);
    throw error;
  }
}

async function payNew(
  { idempay, call }: Connection,
  payment: Wanted,
  options: PayOptions,
  keep: (key: string) => void,
): Promise<Result> {
  try {
    return await payBy(idempay, payment, {
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
  payment: Wanted,
  options: PayOptions,
): Promise<Result> {
  await tellKey(key, options);
  return resumeBy(idempay, key, payment, call);
}

function refuseOtherPayment(keyFile: string, { amount, currency }: Wanted): void {
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

async function tellPaid(result: PayResult, wanted: Wanted, options: PayOptions): Promise<void> {
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

/** Adds what helps after an outcome that is not known, or not yet. */
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
    StillPendingError: `To go on: ${again}`,
    DeadKeyError: `Trying again does not help: look for the key ${key} at the processor, where it is the reference of the charge. Only if it is certain that nothing was charged there: ${afterwards}.`,
    ...(resume !== undefined && { UnusedKeyError: 'To pay: the same command without --resume.' }),
  };
  if (advice[error.name] !== undefined) error.message += `\n${advice[error.name]}`;
  return error;
}

/** Its content is named, and not repeated: standard error is often kept in a log, and no source belongs there. */
function contentAgain({ source, description, metadata, returnUrl }: PayOptions): string {
  const given = Object.entries({ source, description, metadata, 'return-url': returnUrl }).filter(
    ([, value]) => value !== undefined,
  );
  const names = given.map(([name]) => `--${name}`);
  return names.length === 0 ? '' : `, with the same ${names.join(', ').replace(/, (?=[^,]*$)/, ' and ')} as before`;
}
