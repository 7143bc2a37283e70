import type { PendingRefundResult, RefundedResult, RefundRequest, RefundResult } from '#idempay/client';
import { commandName } from '../command-name.js';
import { type ConnectionOptions, connect } from '../connection.js';
import { EXIT } from '../exit-codes.js';
import { type OutputOptions, printRecord } from '../output/results.js';
import { report } from '../output/terminal.js';
import { UsageError } from '../usage.js';
import { StillPendingError, waitForOutcome } from './waiting.js';

export interface RefundOptions extends ConnectionOptions, OutputOptions {
  readonly reference?: string | undefined;
  readonly key?: string | undefined;
  readonly client?: string | undefined;
  readonly name: string;
  readonly amount: string;
  readonly currency: string;
  readonly reason?: string | undefined;
  /** Goes on asking while the refund is pending. */
  readonly wait?: true | undefined;
}

/**
 * `idempay refund`. The same command may be run again, however it ended: the money is given back once for each `--name`. Resolves to the
 * exit code.
 */
export async function refund(options: RefundOptions): Promise<number> {
  const wanted = refundIn(options);
  const { idempay, call } = await connect(options);
  let result: RefundResult;
  try {
    result = await idempay.payments.refund(wanted, call);
    if (result.state === 'pending' && options.wait) {
      const { key, reference, name: refundName } = options;
      const named = { key, reference, refundName, refundKey: result.key };
      await tellPending(result.until, options);
      result = await waitForOutcome<PendingRefundResult, RefundedResult>(
        result,
        { what: 'refund', named, signal: call.signal },
        () => idempay.payments.refund(wanted, call),
      );
    }
  } catch (error) {
    if (error instanceof StillPendingError) await printRecord(recordOf(error.last, options), options);
    throw withAdvice(error as Error, options);
  }
  await printRecord(recordOf(result, options), options);
  return result.state === 'pending' ? EXIT.pending : EXIT.done;
}

/** Exactly one of both, because the one that is left out may be a variable of a script that is empty by mistake. */
function refundIn({ reference, key, client, name, amount, currency, reason }: RefundOptions): RefundRequest {
  const content = { name, amount, currency, reason };
  if (reference !== undefined && key === undefined) return { reference, client, ...content };
  if (reference !== undefined || key === undefined) throw new UsageError('Give --reference or --key, one of both.');
  if (client !== undefined) throw new UsageError('--client belongs to --reference.');
  return { key, ...content };
}

function recordOf(result: RefundResult, { reference, key: payment, name }: RefundOptions): object {
  const { key: refundKey, attempts } = result;
  const named = {
    ...(reference === undefined ? { idempotencyKey: payment } : { reference }),
    ...{ refundName: name, refundKey, attempts },
  };
  if (result.state === 'pending') return { state: result.state, until: result.until, ...named };
  const { transactionId, amount, currency, replayed } = result;
  return { transactionId, amount, currency, replayed, ...named };
}

async function tellPending(until: string, { json }: RefundOptions): Promise<void> {
  if (!json) await report(`The refund is pending, until ${until}.`);
}

/** After an outcome that is not known, or not yet, only the same name is right, so the message has the whole command. */
function withAdvice(error: Error, { reference, key, client, name, amount, currency, reason }: RefundOptions): Error {
  if (error.name !== 'UnknownOutcomeError' && error.name !== 'StillPendingError') return error;
  const given = Object.entries({ reference, key, client, name, amount, currency }).filter(([, value]) => value);
  const again = given.map(([option, value]) => `--${option} ${value}`).join(' ');
  const withReason = reason === undefined ? '' : ', with the same --reason as before';
  error.message += `\nTo go on: ${commandName()} refund ${again}${withReason}`;
  return error;
}
