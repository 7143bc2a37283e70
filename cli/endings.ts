import { isTlsFault } from '#idempay/platform/tls-fault.js';
import { commandName } from './command-name.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { isInterrupted } from './interruption.js';
import { duration } from './output/duration.js';

/** By the names of errors, so that nothing has to be loaded that a command did not use. */
const EXIT_CODES: Readonly<Record<string, ExitCode>> = {
  UsageError: EXIT.mistake,
  CommanderError: EXIT.mistake,
  KeyFileError: EXIT.mistake,
  ConfigError: EXIT.mistake,
  CannotOpen: EXIT.mistake,
  InvalidRequestError: EXIT.mistake,
  DeclinedError: EXIT.declined,
  UnknownOutcomeError: EXIT.unknown,
  StillPendingError: EXIT.pending,
  DeadKeyError: EXIT.deadKey,
  UnusedKeyError: EXIT.notFound,
  CancelledError: EXIT.conflict,
  OutOfTurnError: EXIT.conflict,
  NotCancelledError: EXIT.conflict,
  NotRefundedError: EXIT.conflict,
  UnknownChangeError: EXIT.unknown,
  UnavailableError: EXIT.unavailable,
  NotAuthorizedError: EXIT.notAuthorized,
  NotFoundError: EXIT.notFound,
  ConflictError: EXIT.conflict,
  SettlementsGoneError: EXIT.conflict,
  MismatchError: EXIT.conflict,
  UnexpectedAnswerError: EXIT.unexpectedAnswer,
  InvalidWebhookError: EXIT.mistake,
  OutputError: EXIT.outputFailed,
  StatementError: EXIT.unreadable,
  UnreachableProcessorError: EXIT.unavailable,
};

/** How a command ended, for a person and for a script. */
export interface Ending {
  readonly exitCode: ExitCode;
  readonly message: string;
  /** The key to go on with, if the error has one. */
  readonly idempotencyKey?: string | undefined;
  readonly reference?: string | undefined;
  readonly attempt?: number | undefined;
  /** The attempt to send next, if the payer may try again. */
  readonly nextAttempt?: number | undefined;
  /** The name of the refund, and its key if it is known. */
  readonly refundName?: string | undefined;
  readonly refundKey?: string | undefined;
  /** The amount that can still be given back, if it is less than the requested one. */
  readonly left?: string | undefined;
  readonly status?: number | undefined;
  /** Not before, if the service said so. */
  readonly retryAfterSeconds?: number | undefined;
  readonly requestId?: string | undefined;
}

/** Undefined for a fault of this program: it is shown with its stack. */
export function endingOf(error: unknown): Ending | undefined {
  const fault = error as Record<string, never> & Error;
  const { name, message, key, idempotencyKey, reference, attempt, nextAttempt, status, requestId } = fault;
  const { retryAfterSeconds, refundName, refundKey, left } = fault;
  const { syscall, code } = fault;
  const exitCode = EXIT_CODES[name] ?? (syscall !== undefined ? EXIT.mistake : undefined);
  if (exitCode === undefined) return undefined;
  // Help and version are no mistakes; if a command is missing, help is the whole answer.
  if (name === 'CommanderError' && /^commander\.(help|version)/.test(code ?? '')) {
    return { exitCode: (error as { exitCode?: number }).exitCode === 0 ? EXIT.done : EXIT.mistake, message: '' };
  }
  const isNoConnection = exitCode === EXIT.unavailable || code === 'ECONNREFUSED';
  // A processor is no service, so its error itself names the place to look.
  const isOfService = name !== 'UnreachableProcessorError';
  // A service that answers with a certificate runs, and the sentence says what to do. One that was not waited for may run too.
  const isUnanswered = isNoConnection && isOfService && status === undefined;
  const isNotThere = isUnanswered && !isTlsFault(error) && !isInterrupted();
  const hint = isNotThere ? NO_ANSWER : HINTS[exitCode];
  const sentence = withMoment(withOptions(message.replace(/^error: /, ''), nextAttempt), retryAfterSeconds);
  return {
    exitCode,
    message: hint ? `${sentence}\n${hint}` : sentence,
    idempotencyKey: key ?? idempotencyKey,
    reference,
    attempt,
    nextAttempt,
    refundName,
    refundKey,
    left,
    status,
    retryAfterSeconds,
    requestId,
  };
}

/** The service names parameters of its API; this command has options instead. */
function withOptions(sentence: string, nextAttempt: number | undefined): string {
  return sentence
    .replace(` send attempt=${nextAttempt}.`, ` pay with --attempt ${nextAttempt}.`)
    .replace(` cancel attempt=${nextAttempt}.`, ` cancel with --attempt ${nextAttempt}.`)
    .replace(
      'GET /api/payments?reference= has them all.',
      `'${commandName()} payments list --reference' has them all.`,
    );
}

/** A person does not see the header that a sentence of the service names. */
function withMoment(sentence: string, retryAfterSeconds: number | undefined): string {
  if (!sentence.includes('Retry-After') || retryAfterSeconds === undefined) return sentence;
  const at = new Date(Date.now() + retryAfterSeconds * SECOND_MS).toISOString();
  return `${sentence}\nRetry-After passes at ${at.replace(/\.\d+/, '')}, in ${duration(retryAfterSeconds)}.`;
}

const SECOND_MS = 1_000;

const NO_ANSWER =
  "Is the service running? 'idempay' starts it, and --url or IDEMPAY_URL says where it is, with https: if it has a certificate.";
const HINTS: Readonly<Partial<Record<ExitCode, string>>> = {
  [EXIT.notAuthorized]: 'The credential is IDEMPAY_API_KEY, or in the file that --api-key-file names.',
};
