import { spawn } from 'node:child_process';
import { EXIT, type ExitCode } from '#idempay/cli/exit-codes.js';
import { confirm } from '#idempay/cli/output/confirmation.js';
import type { OutputOptions } from '#idempay/cli/output/results.js';
import { type Colour, harmless, painted, report, write } from '#idempay/cli/output/terminal.js';
import { UsageError } from '#idempay/cli/usage.js';
import {
  PROCESSOR_URL_FORM,
  type ProcessorLocation,
  readProcessorUrl,
} from '../../payments/processors/processor-url.js';
import { sourceProblem } from '../../payments/values/content.js';
import { type Money, readMoney } from '../../payments/values/money.js';
import { safeJson } from '../../platform/safe-json.js';
import { Settings } from '../../platform/settings.js';
import { CONTRACT } from './contract.js';
import { isNameless, openProbe, type Probe } from './probe.js';
import { type Check, runChecks, type Verdict } from './run-checks.js';

export interface CheckOptions extends OutputOptions {
  readonly yes?: true | undefined;
  readonly amount?: string | undefined;
  readonly currency: string;
  readonly source?: string | undefined;
  readonly decliningSource?: string | undefined;
  readonly confirmingSource?: string | undefined;
  readonly restartCommand?: string | undefined;
  readonly payerCommand?: string | undefined;
  readonly timeoutMs: number;
  /** Seconds. */
  readonly deadline: number;
}

/** Shorter than this, a busy machine may cut a connection before the adapter has read the charge. */
const LEAST_CUT_MS = 50;
const LEAST_WATCH_MS = 1_000;
/** The highest number of charged references, with a decline, three cuts and the ended references. */
const MOST_CHARGES = 17;
/** A command that starts a server or a browser may take some time. */
const COMMAND_LIMIT_MS = 120_000;
const COLOURS: Readonly<Record<Verdict, Colour>> = { kept: 'green', broken: 'red', skipped: 'yellow' };
const WIDTHS = { verdict: 9, check: 25 } as const;

/**
 * `idempay processor check`: runs the contract of docs/reference/processor.md against somebody's adapter, and charges for real. Killed at
 * any moment: every reference was written to standard error before it was charged. Throws UsageError and UnreachableProcessorError if
 * nothing was charged.
 */
export async function checkProcessor(url: string | undefined, options: CheckOptions): Promise<ExitCode> {
  const settings = readProcessorSettings(url);
  const location = locationOf(settings.url);
  const money = moneyOf(options);
  const { source, decliningSource, confirmingSource, restartCommand, payerCommand } = options;
  refuseBadSource('--source', source);
  refuseBadSource('--declining-source', decliningSource);
  refuseBadSource('--confirming-source', confirmingSource);
  const at = `${location.origin}${location.path}`;
  const action = `charge ${money.amount} ${money.currency} for real, with up to ${MOST_CHARGES} references, at ${at}`;
  if (options.yes)
    await report(
      `This will ${action}. One reference is also sent with another amount, and charged with it if the contract is broken. Two of the charges are given back.`,
    );
  await confirm(action, options);

  const probe = openProbe({
    location,
    ca: settings.ca,
    money,
    source,
    decliningSource,
    confirmingSource,
    restart: restartCommand === undefined ? undefined : () => runCommand(restartCommand, {}),
    payer:
      payerCommand === undefined
        ? undefined
        : (does, action) =>
            runCommand(payerCommand, {
              IDEMPAY_PAYER_DOES: does,
              IDEMPAY_ACTION: JSON.stringify(action ?? {}),
              IDEMPAY_ACTION_URL: action?.url ?? '',
            }),
    timeoutMs: options.timeoutMs,
    deadlineMs: options.deadline * 1000,
    leastCutMs: LEAST_CUT_MS,
    leastWatchMs: LEAST_WATCH_MS,
    announce: ({ reference, amount, currency, purpose }) =>
      report(`Charging ${amount} ${currency} with the reference ${reference} (${purpose}).`),
    announceRefund: ({ reference, amount, currency, payment }) =>
      report(`Giving back ${amount} ${currency} of ${payment.reference} with the reference ${reference}.`),
    waiting: ({ reference }, limitMs) =>
      report(`The look-up of ${reference} has no outcome yet: asking again for up to ${Math.ceil(limitMs / 1000)} s.`),
  });
  const checks: Check[] = [];
  try {
    for await (const check of runChecks(CONTRACT, probe)) {
      checks.push(check);
      await write(options.json ? `${safeJson(jsonOf(check))}\n` : lineOf(check));
    }
  } finally {
    await probe.close();
  }
  const exitCode = exitCodeOf(checks);
  await write(options.json ? `${safeJson(sumOf(checks, probe))}\n` : endOf(checks, probe));
  return exitCode;
}

/**
 * Runs a command of the user in a shell, and waits for its end, not for the processes that it leaves running. Its output is not shown,
 * because it may contain an action. Resolves with the problem if the command failed.
 */
function runCommand(command: string, environment: Readonly<Record<string, string>>): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(command, { shell: true, stdio: 'ignore', env: { ...process.env, ...environment } });
    const timer = setTimeout(() => {
      child.kill();
      resolve(`took longer than ${COMMAND_LIMIT_MS / 1000} s`);
    }, COMMAND_LIMIT_MS);
    const end = (problem: string | undefined) => {
      clearTimeout(timer);
      resolve(problem);
    };
    child.on('error', ({ message }) => end(`could not be started (${message})`));
    child.on('exit', (code, signal) => end(code === 0 ? undefined : `ended with ${signal ?? `the exit code ${code}`}`));
  });
}

/** A first charge that was declined is an argument to correct: nothing was charged. */
function exitCodeOf(checks: readonly Check[]): ExitCode {
  if (countOf(checks, 'broken') > 0) return EXIT.contractBroken;
  return checks.some(({ isEnd }) => isEnd) ? EXIT.mistake : EXIT.done;
}

function jsonOf({ check, verdict, sentence }: Check) {
  return { check, verdict, sentence };
}

function lineOf({ check, verdict, sentence }: Check): string {
  const cells = [painted(verdict, COLOURS[verdict]), check, harmless(sentence)];
  if (!process.stdout.isTTY) return `${cells.join('\t')}\n`;
  const blanks = [WIDTHS.verdict - verdict.length, WIDTHS.check - check.length, 0];
  return `${cells.map((cell, index) => cell + ' '.repeat(Math.max(blanks[index] ?? 0, 0))).join('')}\n`;
}

function sumOf(checks: readonly Check[], { payments, refunds }: Pick<Probe, 'payments' | 'refunds'>) {
  return {
    isKept: exitCodeOf(checks) === EXIT.done,
    kept: countOf(checks, 'kept'),
    broken: countOf(checks, 'broken'),
    skipped: countOf(checks, 'skipped'),
    areChargesNamed: !payments.some(isNameless),
    references: payments.map(({ reference, transactionId, amount, amounts, currency, state, purpose }) => ({
      reference,
      transactionId,
      /** More than one if the contract is broken. */
      amounts: amounts.size > 0 ? [...amounts] : [amount],
      currency,
      state,
      purpose,
    })),
    refunds: refunds.map(({ reference, payment, transactionId, amount, currency, state, purpose }) => ({
      reference,
      charge: payment.reference,
      transactionId,
      amount,
      currency,
      state,
      purpose,
    })),
  };
}

function endOf(checks: readonly Check[], probe: Pick<Probe, 'payments' | 'refunds'>): string {
  const { kept, broken, skipped, areChargesNamed, references, refunds } = sumOf(checks, probe);
  const rows = references.map(({ state, amounts, currency, reference, purpose }) =>
    [state, `${amounts.join(' and ')} ${currency}`, reference, purpose].join('\t'),
  );
  const given = refunds.map(({ state, amount, currency, reference, charge }) =>
    [state, `${amount} ${currency}`, reference, `refund of ${charge}`].join('\t'),
  );
  return [
    `${kept} kept, ${broken} broken, ${skipped} skipped.`,
    ...(areChargesNamed ? [] : [NAMELESS]),
    ...(rows.length === 0 ? ['Nothing was charged.'] : [LOOK, ...rows, ...given]),
    '',
  ].join('\n');
}

const NAMELESS =
  'The replies, or some of them, name no charge, so it is not shown that each reference was charged once. Answer each charge and look-up with the id that the processor has for the charge.';

/** Replies prove what the adapter says, not what was charged. */
const LOOK =
  'Look at the processor: each reference must be there once, with its amount, and a declined one must not be charged. One that was ended before it came may be missing.';

const countOf = (checks: readonly Check[], verdict: Verdict) =>
  checks.filter((check) => check.verdict === verdict).length;

/** `PROCESSOR_URL` and its file, if no URL was given, and `PROCESSOR_CA_FILE`. */
function readProcessorSettings(url: string | undefined): {
  readonly url: string | undefined;
  readonly ca: string | undefined;
} {
  const problems: string[] = [];
  const settings = new Settings(
    url === undefined ? process.env : { ...process.env, PROCESSOR_URL_FILE: undefined },
    problems,
  );
  const authorities = settings.authorities('PROCESSOR_CA_FILE');
  const [problem] = problems.filter((each) => each.startsWith('PROCESSOR_'));
  if (problem !== undefined) throw new UsageError(`${problem}.`);
  return { url: url ?? settings.optional('PROCESSOR_URL'), ca: authorities?.text };
}

function locationOf(url: string | undefined): ProcessorLocation {
  if (!url) throw new UsageError('Say which adapter: its URL as an argument, or PROCESSOR_URL.');
  const location = readProcessorUrl(url);
  if (location) return location;
  throw new UsageError(`The URL must be ${PROCESSOR_URL_FORM}.`);
}

function moneyOf({ amount = '1', currency }: CheckOptions): Money {
  const money = readMoney(amount, currency);
  if (!('problem' in money)) return money;
  throw new UsageError(money.problem.replace(/^'(amount|currency)'/, '--$1'));
}

function refuseBadSource(option: string, source: string | undefined): void {
  const problem = source === undefined ? undefined : sourceProblem(source);
  if (problem !== undefined) throw new UsageError(`${option}: ${problem}`);
}
