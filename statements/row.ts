import {
  type Amount,
  amountOf,
  type DecimalMark,
  problemOfCurrency,
  problemOfDecimals,
  problemOfEither,
  readAmount,
} from './amounts.js';
import type { Columns } from './columns.js';
import { decimalsOf } from './currencies.js';
import { idsWithin, isWholeKey, OUR_TRANSACTION } from './ids.js';
import { clipped } from './texts.js';

/** The subject of a line. Payments and refunds are compared with ours. */
export type RowKind = 'payment' | 'refund' | 'chargeback' | 'fee' | 'other';

/** One line of the processor's statement that could be read. */
export interface StatementRow {
  readonly line: number;
  /** A key of ours or an order number, as the statement has it. Empty if it has none. */
  readonly reference: string;
  readonly order: string;
  /** The key of a refund, if it stands in a column of its own. Empty if it does not. */
  readonly refund: string;
  /** Ours, `TXN...`; empty: the statement does not say. */
  readonly transactionId: string;
  /** Empty: a line that is never compared, such as a fee, states none. */
  readonly amount: string;
  readonly units: bigint;
  readonly currency: string;
  /** As it stands there; empty: the statement has no statuses. */
  readonly status: string;
  /** The meaning of the status. Without one: a statement lists paid payments. */
  readonly state: 'COMPLETED' | 'DECLINED' | 'OTHER';
  /** As it stands there, with blanks between its words; empty: the statement has no types. */
  readonly type: string;
  readonly kind: RowKind;
  /** True of a line that takes a refund back, because its money did not arrive. */
  readonly isFailedRefund: boolean;
  /** True of a negative line whose type says nothing. It is a difference if it names a payment or a refund of ours. */
  readonly isUntypedDebit: boolean;
  /** The part of its payment that was given back, if a column of its own says so. */
  readonly refundedUnits: bigint;
  /** The part of the line of a payment that says that this refund was made. Omitted for a refund that has a line of its own. */
  readonly statedBy?: 'amount' | 'status';
}

/** A line that could not be read. `ids`: the ids by which it may name a payment. */
export interface UnreadRow {
  readonly line: number;
  readonly problem: string;
  readonly ids: readonly string[];
}

/** A person's instructions for reading the statement, if it does not show them itself. */
export interface Reading {
  readonly columns: Columns;
  /** The currency of lines that have none. */
  readonly currency?: string | undefined;
  readonly decimalMark?: DecimalMark | undefined;
  /** The currency in the name of the column of amounts. A line in another one is refused. */
  readonly namedCurrency?: string | undefined;
}

/** A line of which an amount can be read in two ways: other lines say in which. */
export interface PendingRow {
  readonly row: RowBeforeAmount;
  readonly amount: TwoReadings;
  readonly refunded: TwoReadings;
  readonly mark: DecimalMark | undefined;
}

interface TwoReadings {
  readonly text: string;
  readonly either: Readonly<Record<DecimalMark, bigint>>;
}

/** `mark`: what the amount shows of its column. */
export type ReadRow = UnreadRow | PendingRow | { readonly row: StatementRow; readonly mark: DecimalMark | undefined };

type RowBeforeAmount = Omit<StatementRow, 'units' | 'amount' | 'kind' | 'isUntypedDebit' | 'refundedUnits'>;

const REFUNDED_PARTLY = 'partiallyrefunded partialrefund teilweisezurückgezahlt'.split(' ');
const REFUNDED = ['refunded', 'zurückgezahlt', ...REFUNDED_PARTLY];
const PAID = [
  ...'succeeded success successful completed complete paid captured settled approved ok'.split(' '),
  ...'booked book posted settledsuccessfully paidout processed cleared'.split(' '),
  ...'gebucht umsatzgebucht bezahlt abgeschlossen'.split(' '),
  ...REFUNDED,
];
/** Also of payments that were begun and never made: no money moved. */
const DECLINED = [
  ...'declined failed failure refused rejected denied abgelehnt fehlgeschlagen'.split(' '),
  ...'canceled cancelled expired voided abandoned incomplete requirespaymentmethod abgebrochen storniert'.split(' '),
];
/** `CaptureFailed`, `payment_canceled`. Without a sign: a negative line took the money back. */
const DECLINED_TYPE = new RegExp(`(?:^|\\s)(?:${DECLINED.join('|')})$`, 'i');
/** Words that banks write if a payer gave no reference. */
const NO_REFERENCE = /^(?:notprovided|nonref|n\/?a|none|null|-+)$/i;
const CURRENCY = /^[A-Z]{3}$/;
const NOT_CAPTURED = /^(?:false|no|nein|0)$/i;
/** The words for the direction in which the money of an amount without a sign went. */
const DEBIT_SIDES = 's soll d dr debit dbit af'.split(' ');
const CREDIT_SIDES = 'h haben c cr credit crdt bij'.split(' ');
const DEBIT_TYPE = /^(?:debit|dr|soll)$/i;
/** Stripe (`refund_failure`) and Adyen (`RefundedReversed`) write a line with the money for a refund that the payer's bank sent back. */
const FAILED_REFUND = /refunds?[ -]?fail|refund(?:ed)?[ -]?revers|returned refund|refund funds returned/i;

interface Circumstances {
  readonly isNamed: boolean;
  readonly isNegative: boolean;
}

/** Authorize.Net has `Authorization and Capture`, which is a payment. */
const AUTHORIZED = /^(?!.*(?<!un|(?:not?|without)[ -])captur).*(?:authori[sz]|\bauth\b|autorisierung)/is;

const withoutName = ({ isNamed }: Circumstances) => !isNamed;
const isNegative = (line: Circumstances) => line.isNegative;
/** Between accounts of the company, and others that may be a payment if they name one. */
const TRANSFERS = /withdrawal|transfer|adjustment|top-?up|deposit|abbuchung|bankgutschrift|\bach\b/i;

/** In this order: a fee of a chargeback is a fee, and the reversal of a hold is no refund. */
const KINDS: readonly (readonly [RowKind, RegExp, when?: (line: Circumstances) => boolean])[] = [
  ['fee', /\bfees?\b|\bcosts?\b|commission|geb(?:u|ü|ue)hr|\bentgelt|\bfrais\b|comisi[oó]n|\bkosten\b/i],
  ['chargeback', /charged?[ -]?back|dispute/i],
  ['refund', /\breturns?\b|refund|erstattung|r(?:ü|ue)ckzahlung|rembours|reembols|rimbors|terugbetal/i],
  ['other', AUTHORIZED],
  ['other', /\bvoid|conversion|umrechnung|\bhold\b|einbehaltung|release|freigabe|reserve|payout|auszahlung|deduction/i],
  // A payment may come by `Transfer`.
  ['other', TRANSFERS, withoutName],
  ['refund', /reversal|reversed|storno|r(?:ü|ue)ckbuchung|r(?:ü|ue)cklastschrift|retoure/i],
  // Money of a payment that failed after it was paid out.
  ['refund', /fail(?:ed|ure)|fehlgeschlagen/i, isNegative],
  ['other', TRANSFERS, isNegative],
];

/** Adyen states what it keeps, and what it pays out, only as a net amount. Such lines are never compared. */
const WITHOUT_AMOUNT = {
  amount: '',
  units: 0n,
  currency: '',
  state: 'OTHER',
  isFailedRefund: false,
  isUntypedDebit: false,
  refundedUnits: 0n,
} as const;

export function readStatementRow(line: number, fields: readonly string[], reading: Reading): ReadRow {
  const { columns, decimalMark } = reading;
  const text: CellText = (index) => (index === undefined ? '' : (fields[index] ?? '').trim());
  const names = namesIn(columns, text);
  const ids = idsOf(names);
  const unread = (problem: string): UnreadRow => ({ line, problem, ids });

  const [type, status] = [wordsOf(text(columns.type)), text(columns.status)];
  const begun = { line, ...names, type, status } as const;
  const kind = kindOf(type, 1n, ids.length > 0);
  const hasAmount = [columns.amount, columns.credit, columns.debit].some((index) => text(index) !== '');
  if (!hasAmount && (kind === 'fee' || kind === 'other'))
    return { row: { ...begun, ...WITHOUT_AMOUNT, kind }, mark: undefined };
  const money = statedAmount(columns, text, type);
  if ('problem' in money) return unread(money.problem);
  const { amountText, isDebit } = money;
  const read = readAmount(amountText, decimalMark);
  if ('problem' in read) return unread(read.problem);
  const amount = isDebit ? debitOf(read) : read;
  const { currency, named } = currencyOf(text(columns.currency).toUpperCase(), reading);
  const wrongCurrency = currencyProblem(currency, amountText, named);
  if (wrongCurrency !== undefined) return unread(wrongCurrency);
  if (ids.length === 0 && kind === undefined && !isBelowZero(amount)) {
    return unread(problemOfNames(text(columns.transactionId)));
  }
  const refundedText = text(columns.refunded);
  const refunded = hasMoney(refundedText) ? readAmount(refundedText, decimalMark) : NOTHING;
  if ('problem' in refunded) return unread(refunded.problem);
  const row = { ...begun, currency, ...stateIn(status, type, text(columns.captured)) };
  const mark = 'units' in amount ? amount.mark : undefined;
  if ('units' in amount && 'units' in refunded) return { row: complete(row, amount.units, refunded.units), mark };
  return { row, amount: twoReadings(amountText, amount), refunded: twoReadings(refundedText, refunded), mark };
}

const NOTHING = { units: 0n, mark: undefined };

function twoReadings(text: string, amount: ReadAmount): TwoReadings {
  return { text, either: 'units' in amount ? { '.': amount.units, ',': amount.units } : amount.either };
}

type CellText = (index: number | undefined) => string;

function namesIn(columns: Columns, text: CellText) {
  const stated = named(text(columns.reference));
  const ids = [text(columns.transactionId), stated].map((id) => id.toUpperCase());
  return {
    reference: OUR_TRANSACTION.test(stated) ? '' : stated,
    // Shopify writes `#1001`.
    order: named(text(columns.order).replace(/^#/, '')),
    refund: named(text(columns.refund)),
    transactionId: ids.find((id) => OUR_TRANSACTION.test(id)) ?? '',
  };
}

function problemOfNames(transactionId: string): string {
  if (transactionId === '') return 'It has neither a reference nor a transaction id.';
  return `“${clipped(transactionId)}” is no transaction id of ours: they are TXN and digits.`;
}

/** `named`: the currency that the column of amounts has in its name, for a line that has one of its own. */
function currencyOf(own: string, { currency = '', namedCurrency }: Reading) {
  return own === '' ? { currency: currency.toUpperCase(), named: undefined } : { currency: own, named: namedCurrency };
}

function currencyProblem(currency: string, amountText: string, named = currency): string | undefined {
  if (currency === '') return 'It has no currency.';
  if (!CURRENCY.test(currency))
    return `The currency “${clipped(currency)}” is not a code of three letters such as USD.`;
  if (named !== currency) {
    return `The name of the column of amounts says ${named}, and the line ${currency}. Say which column has the currency, or that none has it.`;
  }
  return problemOfCurrency(amountText, currency);
}

/** By the mark of the column. */
export function resolved({ row, ...stated }: PendingRow, mark: DecimalMark | undefined): StatementRow | UnreadRow {
  const [amount, refunded] = [stated.amount, stated.refunded].map((each) => unitsBy(mark, each, row.currency));
  const problem = amount?.problem ?? refunded?.problem;
  if (problem !== undefined) return { line: row.line, problem, ids: idsOf(row) };
  return complete(row, amount?.units ?? 0n, refunded?.units ?? 0n);
}

function unitsBy(mark: DecimalMark | undefined, { text, either }: TwoReadings, currency: string) {
  const units = mark === undefined ? withoutDecimals(either, currency) : either[mark];
  const problem = units === undefined ? problemOfEither(text) : problemOfDecimals(text, units, currency);
  return { units, problem };
}

/** `5,000` JPY is five thousand: the currency has no decimals. */
function withoutDecimals(either: TwoReadings['either'], currency: string): bigint | undefined {
  const [point, comma] = [either['.'], either[',']];
  if (point === comma) return point;
  if (decimalsOf(currency) > 0) return undefined;
  return point * point > comma * comma ? point : comma;
}

/** The ids by which a line that is no record may name a payment. */
export function idsIn(text: string, delimiter: string | undefined): readonly string[] {
  const cells = delimiter === undefined ? [] : text.split(delimiter).map((cell) => cell.replaceAll('"', '').trim());
  return [...new Set([...idsWithin(text), ...cells.filter((cell) => cell !== '')])];
}

function complete(row: RowBeforeAmount, units: bigint, refundedUnits: bigint): StatementRow {
  const type = typeOf(row, units);
  const known = kindOf(type, units, idsOf(row).length > 0);
  const isDebit = units < 0n;
  const isDeclined = !isDebit && (known === undefined || known === 'refund') && DECLINED_TYPE.test(type);
  return {
    ...row,
    state: isDeclined ? 'DECLINED' : row.state,
    units,
    refundedUnits,
    amount: amountOf(units, row.currency),
    kind: known ?? (isDebit ? 'other' : 'payment'),
    isUntypedDebit: known === undefined && isDebit && row.state !== 'DECLINED',
  };
}

/** The key of a refund says more than a type, and so does the status `refunded` of a negative line without one. */
function typeOf({ type, refund, status }: RowBeforeAmount, units: bigint): string {
  const isRefunded = type === '' && units < 0n && REFUNDED.includes(wordOf(status));
  return isWholeKey(refund) || isRefunded ? `${type} refund` : type;
}

/** `RefundFailed`, `refund_failed`: refund failed. */
const wordsOf = (type: string): string => type.replaceAll('_', ' ').replace(/([a-z])([A-Z])/g, '$1 $2');

const named = (text: string): string => (NO_REFERENCE.test(text) ? '' : text);

/** The ids by which a line may be found. A key of ours is the same in any case, an order number is not. */
export function idsOf(row: Pick<StatementRow, 'reference' | 'order' | 'refund' | 'transactionId'>): readonly string[] {
  const stated = [row.reference, row.order, row.refund, row.transactionId].filter((id) => id !== '');
  return [...new Set([...stated, ...stated.filter(isWholeKey).map((key) => key.toLowerCase())])];
}

type ReadAmount = Exclude<Amount, { readonly problem: string }>;

/** The amount of a line, and whether its money went out although its text may have no sign. */
function statedAmount(
  columns: Columns,
  text: CellText,
  type: string,
): { readonly amountText: string; readonly isDebit: boolean } | { readonly problem: string } {
  const [amount, credit] = [text(columns.amount), text(columns.credit)];
  const [debit, side] = [text(columns.debit), text(columns.side)];
  const [hasCredit, hasDebit] = [hasMoney(credit), hasMoney(debit)];
  const isDebit = hasDebit && !hasCredit;
  const sideWord = side.toLowerCase();
  if (columns.side !== undefined && ![...DEBIT_SIDES, ...CREDIT_SIDES].includes(sideWord)) {
    return { problem: `“${clipped(side)}” says neither debit nor credit.` };
  }
  const isDebitSide = DEBIT_SIDES.includes(sideWord);
  if (columns.amount !== undefined) {
    const isDebitType = columns.side === undefined && !hasCredit && DEBIT_TYPE.test(type);
    return { amountText: amount, isDebit: isDebit || isDebitSide || isDebitType };
  }
  if (hasCredit && hasDebit) return { problem: 'It has a credit and a debit.' };
  return { amountText: isDebit ? debit : credit || debit, isDebit: isDebit || isDebitSide };
}

/** False for a cell that is empty, or zero. */
function hasMoney(text: string): boolean {
  if (/^[^\p{L}\p{N}]*$/u.test(text)) return false;
  const read = readAmount(text);
  return !('units' in read) || read.units !== 0n;
}

/** Some companies write a debit with a sign, and some without one. */
function debitOf(amount: ReadAmount): ReadAmount {
  const negative = (units: bigint) => (units > 0n ? -units : units);
  if ('units' in amount) return { ...amount, units: negative(amount.units) };
  return { either: { '.': negative(amount.either['.']), ',': negative(amount.either[',']) } };
}

function isBelowZero(amount: ReadAmount): boolean {
  return 'units' in amount ? amount.units < 0n : amount.either['.'] < 0n;
}

/** The kind that the type names. Undefined if it names none: then the line is a payment, unless it is negative. */
function kindOf(type: string, units: bigint, isNamed: boolean): RowKind | undefined {
  const line = { isNamed, isNegative: units < 0n };
  return KINDS.find(([, words, when]) => words.test(type) && (when === undefined || when(line)))?.[0];
}

/** A payment that is only authorized is not paid yet, also if its status says so (Stripe). */
function stateIn(status: string, type: string, captured: string) {
  const isFailedRefund = FAILED_REFUND.test(type);
  const state = isFailedRefund ? 'DECLINED' : stateOf(status);
  if (state !== 'COMPLETED' || !NOT_CAPTURED.test(captured)) return { status, state, isFailedRefund };
  return { status: `${status} (not captured)`.trim(), state: 'OTHER', isFailedRefund } as const;
}

function stateOf(status: string): StatementRow['state'] {
  const word = wordOf(status);
  if (word === '' || PAID.includes(word)) return 'COMPLETED';
  return DECLINED.includes(word) ? 'DECLINED' : 'OTHER';
}

/** The part of its payment that was given back, if the status says so. */
export function refundedPart(status: string): 'all' | 'some' | undefined {
  const word = wordOf(status);
  if (REFUNDED_PARTLY.includes(word)) return 'some';
  return REFUNDED.includes(word) ? 'all' : undefined;
}

const wordOf = (status: string) => status.toLowerCase().replace(/[\s_-]/g, '');
