import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { totalTexts } from '#idempay/statements/amounts.js';
import type { SettledPayment } from '#idempay/statements/differences.js';
import { DIFFERENCE_CSV_HEADER, differenceCsvLine } from '#idempay/statements/differences-file.js';
import { exportedPayments } from '#idempay/statements/exported-payments.js';
import { readHead } from '#idempay/statements/format.js';
import {
  agreementOf,
  type DayOffset,
  MOST_SHOWN,
  type OurPayments,
  type Reconciliation,
  reconcile,
} from '#idempay/statements/reconcile.js';
import type { PaymentNames } from '#idempay/statements/refunds.js';
import type { Reading } from '#idempay/statements/row.js';

const keyOf = (number: number) => `0190a000-0000-7000-8000-${String(number).padStart(12, '0')}`;
const paymentOf = (number: number, changes: Partial<SettledPayment> = {}): SettledPayment => ({
  idempotencyKey: keyOf(number),
  reference: null,
  attempt: null,
  state: 'COMPLETED',
  amount: '100.50',
  currency: 'USD',
  transactionId: `TXN${number}`,
  claimedAt: '2026-11-20T10:00:00.000Z',
  settledAt: '2026-11-20T10:00:01.000Z',
  ...changes,
});
const refundKeyOf = (number: number) => `f190a000-0000-8000-8000-${String(number).padStart(12, '0')}`;
/** A refund of all that was paid, unless `changes` say otherwise. */
const refundOf = (number: number, payment: SettledPayment, changes: Partial<SettledPayment> = {}): SettledPayment => ({
  ...payment,
  idempotencyKey: refundKeyOf(number),
  reference: null,
  attempt: null,
  transactionId: `TXN90${number}`,
  refund: { payment: payment.idempotencyKey, name: `line-${number}` },
  ...changes,
});

interface StatedRow {
  readonly reference?: string;
  readonly transactionId?: string;
  readonly amount: string;
  readonly currency: string;
  readonly status?: string;
}
const rowOf = ({ idempotencyKey, transactionId, amount, currency, state }: SettledPayment): StatedRow => ({
  reference: idempotencyKey,
  transactionId,
  amount,
  currency,
  status: state === 'COMPLETED' ? 'succeeded' : 'declined',
});

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
const ndjson = (objects: readonly object[]) => objects.map((object) => `${JSON.stringify(object)}\n`).join('');

function compare(
  rows: readonly StatedRow[],
  payments: readonly SettledPayment[],
  daysNextToIt: Partial<Record<DayOffset, SettledPayment[]>> = {},
) {
  return compareText(ndjson(rows.length > 0 ? rows : [{ reference: '', amount: '', currency: '' }]), (day) =>
    day === 0 ? payments : (daysNextToIt[day] ?? []),
  );
}

interface Compared extends Reconciliation {
  /** The file of differences. */
  readonly file: string;
}

async function compareText(
  text: string,
  exportOf: (day: DayOffset) => readonly SettledPayment[],
  reading: Partial<Reading> = {},
  names: Readonly<Record<string, PaymentNames>> = {},
): Promise<Compared> {
  const { format, columns } = readHead(text.split('\n'));
  const lines: string[] = [];
  const result = await reconcile(
    { bytes: bytesOf(text), format, columns, ...reading },
    {
      paymentsOf: (day) => exportedPayments(bytesOf(wholeExport(exportOf(day)))),
      namesOf: async (payment) => names[payment],
    },
    (difference) => lines.push(differenceCsvLine(difference)),
  );
  return { ...result, file: DIFFERENCE_CSV_HEADER + lines.join('') };
}

const oursIn = (text: string): OurPayments => ({
  paymentsOf: () => exportedPayments(bytesOf(text)),
  namesOf: async () => undefined,
});
const wholeExport = (payments: readonly SettledPayment[]) =>
  ndjson([...payments, { end: true, count: payments.length, sums: {} }]);

const countsOf = ({ groups }: Reconciliation) =>
  Object.fromEntries(Object.entries(groups).flatMap(([kind, { count }]) => (count > 0 ? [[kind, count]] : [])));
const totalsOf = ({ groups }: Reconciliation, kind: keyof Reconciliation['groups']) => ({
  ours: totalTexts(groups[kind].ours),
  theirs: totalTexts(groups[kind].theirs),
});

describe('a reconciliation', () => {
  /**
   * Bug: a day that was cut was compared as a whole one, and its missing payments were told to the operator as the processor's. Cause:
   * behind a proxy that speaks HTTP/1.0 a cut connection looks like one that has ended. Fix: the last line of an export is asked for.
   */
  it('compares no export that was cut, wherever that was', async () => {
    const payments = [paymentOf(1), paymentOf(2)];
    const [first] = payments.map(rowOf) as [StatedRow, StatedRow];
    const { format, columns } = readHead(ndjson([first]).split('\n'));
    const compareWith = (exported: string) =>
      reconcile({ bytes: bytesOf(ndjson([first])), format, columns }, oursIn(exported));
    const whole = wholeExport(payments);
    expect(countsOf(await compareWith(whole))).toEqual({ matched: 1, ours: 1 });
    const [one, two, end] = whole.split('\n');
    const cuts = Array.from({ length: whole.length - 1 }, (_, length) => whole.slice(0, length));
    const broken = [`${one}\n${end}\n`, `${whole}${two}\n`, `${whole}${end}\n`, '<html></html>', `${one}\n${two}\n`];
    for (const text of [...cuts, ...broken]) {
      await expect(compareWith(text), JSON.stringify(text)).rejects.toThrow('did not arrive whole');
    }
  });

  /**
   * Bug: a line of `100,50 USD` agreed with a payment of 100.50 EUR, with `--currency EUR` or a column that has EUR. Cause: the code or sign in an
   * amount was removed and never looked at. Fix: a line whose amount names another currency than the line is not read.
   */
  it.each([
    ['with a chosen currency', 'order,amount', 'order-1,"100,50 USD"', 'USD'],
    ['with a column for the currency', 'order,amount,currency', 'order-1,"100,50 USD",EUR', 'USD'],
    ['by its sign', 'order,amount,currency', 'order-1,$100.50,EUR', '$'],
  ])('reads no line whose amount is in another currency, %s', async (_what, header, line, mark) => {
    const payment = paymentOf(1, { reference: 'order-1', attempt: 1, currency: 'EUR' });
    const result = await compareText(`${header}\n${line}\n`, () => [payment], { currency: 'EUR' });
    expect(countsOf(result)).toEqual({ unread: 1 });
    expect(result.problems.first).toMatchObject([
      { problem: expect.stringContaining(`is in ${mark}, and its line in EUR.`) },
    ]);
  });

  /** Bug: 50.00 under “Amount (USD)” agreed with 50.00 EUR. Cause: the currency of the heading counted only for lines without one. */
  it('reads no line whose currency is another one than that of its column of amounts', async () => {
    const payments = [1, 2].map((number) => paymentOf(number, { currency: 'EUR' }));
    const lines = payments.map(({ idempotencyKey }, at) => `${idempotencyKey},100.50,${['EUR', 'USD'][at]}`);
    const result = await compareText(`reference,Amount (USD),currency\n${lines.join('\n')}\n`, () => payments);
    expect(countsOf(result)).toEqual({ unread: 1, different: 1 });
    expect(result.problems.first).toMatchObject([
      { line: 2, problem: expect.stringContaining('says USD, and the line EUR.') },
    ]);
    expect(countsOf(await compareText(`reference,Amount (NET),currency\n${lines[0]}\n`, () => payments))).toEqual({
      ...{ matched: 1, ours: 1 },
    });
  });

  it('finds what differs, what is missing on either side, and what is there twice', async () => {
    const [same, amount, currency, state, onlyOurs] = [1, 2, 3, 4, 5].map((number) => paymentOf(number)) as [
      SettledPayment,
      SettledPayment,
      SettledPayment,
      SettledPayment,
      SettledPayment,
    ];
    const result = await compare(
      [
        { ...rowOf(same), amount: '100.5' },
        { ...rowOf(amount), amount: '100.51' },
        { ...rowOf(currency), currency: 'EUR' },
        { ...rowOf(state), status: 'declined' },
        rowOf(same),
        rowOf(paymentOf(6)),
      ],
      [same, amount, currency, state, onlyOurs],
    );
    expect(countsOf(result)).toEqual({ matched: 1, different: 3, ours: 1, theirs: 1, duplicate: 1 });
    expect(result.shown.different.map(({ differs }) => differs)).toEqual([['amount'], ['currency'], ['state']]);
    expect(result.shown.duplicate).toMatchObject([{ firstLine: 1, theirs: { line: 5 } }]);
    expect(result.shown.ours).toMatchObject([{ ours: onlyOurs }]);
    expect(result.shown.theirs).toMatchObject([{ theirs: { line: 6, reference: keyOf(6) } }]);
    expect(totalsOf(result, 'different')).toEqual({
      ours: [{ currency: 'USD', amount: '301.50' }],
      theirs: [
        { currency: 'EUR', amount: '100.50' },
        { currency: 'USD', amount: '100.51' },
      ],
    });
  });

  it('matches by transaction id alone, and reports another one behind the same key', async () => {
    const { reference: _, ...row } = rowOf(paymentOf(1));
    const other = { ...rowOf(paymentOf(2)), transactionId: 'TXN99' };
    const result = await compare([row, other], [paymentOf(1), paymentOf(2)]);
    expect(countsOf(result)).toEqual({ matched: 1, different: 1 });
    expect(result.shown.different).toMatchObject([{ differs: ['transaction id'] }]);
  });

  it('counts the line that moved money where a reference is there twice', async () => {
    const payment = paymentOf(1);
    const declined = { ...rowOf(payment), status: 'declined' };
    for (const rows of [
      [declined, rowOf(payment)],
      [rowOf(payment), declined],
    ]) {
      const result = await compare(rows, [payment]);
      expect(countsOf(result)).toEqual({ matched: 1, duplicate: 1 });
      expect(result.shown.duplicate).toMatchObject([{ theirs: { state: 'DECLINED' } }]);
    }
  });

  /**
   * Bug: a refund, a fee, a chargeback, a line in another currency or a part of the amount above the charge was compared as the payment, and
   * the charge was "twice on the statement". Cause: the first line of a reference counted. Fix: the one that equals the payment counts.
   */
  it.each([
    ['a refund', '-100.50,USD,refund', { matched: 1, refundTheirs: 1 }],
    ['a negative line without a type', '-100.50,USD,', { matched: 1, refundTheirs: 1 }],
    ['a negative line of a transfer', '-100.50,USD,adjustment', { matched: 1, other: 1 }],
    ['a fee', '3.00,USD,fee', { matched: 1, fee: 1 }],
    ['a chargeback', '-100.50,USD,chargeback', { matched: 1, chargeback: 1 }],
    ['a line in another currency', '100.50,EUR,charge', { matched: 1, duplicate: 1 }],
    ['a part of the amount', '50.25,USD,charge', { matched: 1, duplicate: 1 }],
  ])('is the same with %s above and below the charge', async (_what, line, counts) => {
    const charge = `${keyOf(1)},100.50,USD,charge`;
    for (const lines of [
      [`${keyOf(1)},${line}`, charge],
      [charge, `${keyOf(1)},${line}`],
    ]) {
      const result = await compareText(`reference,amount,currency,type\n${lines.join('\n')}\n`, () => [paymentOf(1)]);
      expect(countsOf(result)).toEqual(counts);
    }
  });

  describe('of a line whose money did not come in', () => {
    const order = (number: number, changes: Partial<SettledPayment> = {}) =>
      paymentOf(number, { reference: `order-${number}`, attempt: 1, amount: '50.00', currency: 'EUR', ...changes });
    const day = [order(1)];

    interface Case {
      readonly name: string;
      readonly text: string;
      readonly ours?: readonly SettledPayment[];
      readonly counts: Readonly<Record<string, number>>;
    }
    const cases: readonly Case[] = [
      /** Bug: a debit without a sign agreed with the payment that is missing. Cause: nothing read the side of an amount. */
      {
        name: 'a debit by its side',
        text: 'Kundenreferenz;Währung;Umsatz;Soll/Haben\norder-1;EUR;50,00;S',
        counts: { ours: 1, refundTheirs: 1 },
      },
      {
        name: 'a debit by a last column without a name',
        text: '"Kundenreferenz";"Währung";"Umsatz";" "\n"order-1";"EUR";"50,00";"S"',
        counts: { ours: 1, refundTheirs: 1 },
      },
      {
        name: 'a debit by its type',
        text: 'Reference,Type,Amount,Currency\norder-1,Debit,50.00,EUR',
        counts: { ours: 1, refundTheirs: 1 },
      },
      {
        name: 'a debit by a column alongside the amount',
        text: 'entity_id,type,debit,credit,amount,currency,order_receipt\nadj_1,adjustment,50.00,0.00,50.00,EUR,order-1',
        counts: { ours: 1, other: 1 },
      },
      {
        name: 'a credit next to a sale',
        text: 'Transaction Type,Order ID,Amount,Currency\nsale,order-2,20.00,EUR\ncredit,order-1,50.00,EUR',
        ours: [order(1), order(2, { amount: '20.00' })],
        counts: { matched: 1, ours: 1, refundTheirs: 1 },
      },
      /** Bug: the end of a hold agreed with a payment, or with a refund, that was missing. Cause: its name has the word reversal. */
      {
        name: 'the end of a hold, for a payment that is missing',
        text: 'Typ,Status,Währung,Brutto,Rechnungsnummer\nRückbuchung allgemeiner Einbehaltung,Abgeschlossen,EUR,"50,00",order-1',
        counts: { ours: 1, other: 1 },
      },
      {
        name: 'the end of a hold, for a refund that is missing',
        text: 'Type,Currency,Gross,Invoice Number\nExpress Checkout Payment,EUR,50.00,order-1\nGeneral Hold,EUR,-50.00,order-1\nReversal of General Account Hold,EUR,50.00,order-1',
        ours: [order(1), refundOf(1, order(1))],
        counts: { matched: 1, refundOurs: 1, other: 2 },
      },
      {
        name: 'an authorization, and a capture that failed',
        text: 'Merchant Reference,Record Type,Amount,Currency\norder-1,Authorised,50.00,EUR\norder-2,CaptureFailed,50.00,EUR',
        ours: [order(1), order(2)],
        counts: { ours: 1, different: 1, other: 1 },
      },
      /** Bug: a payment that was charged twice agreed. Cause: the types of Authorize.Net for a charge have the word authorization. */
      ...['Authorization and Capture', 'Prior Authorization Capture'].map((type) => ({
        name: `money that came in twice by the type “${type}”`,
        text: `Invoice Number,Transaction Type,Amount,Currency\norder-1,${type},50.00,EUR\norder-1,${type},50.00,EUR`,
        counts: { matched: 1, duplicate: 1 },
      })),
      /** Bug: a payment that was declined agreed. Cause: an empty column of the status won over the filled one. */
      {
        name: 'a decline in the second column of a status',
        text: 'Order,Amount,Currency,State,Payment Status\norder-1,50.00,EUR,,Declined',
        counts: { different: 1 },
      },
      {
        name: 'an authorization in the second column of a type',
        text: 'Order,Amount,Currency,Type,Transaction Type\norder-1,50.00,EUR,,Authorisation only',
        counts: { ours: 1, other: 1 },
      },
      /** Bug: a payment that was begun and never made was a difference. Cause: its line was one of a payment that Idempay lost. */
      {
        name: 'payments that were begun and never made',
        text: 'Reference,Amount,Currency,Status\norder-1,50.00,EUR,Paid\norder-2,50.00,EUR,Canceled\norder-7,50.00,EUR,Expired\norder-8,50.00,EUR,Failed',
        ours: [order(1), order(2, { state: 'DECLINED' })],
        counts: { matched: 2, theirsDeclined: 2 },
      },
      {
        name: 'a payment that was made besides one that was not',
        text: 'Reference,Amount,Currency,Status\norder-7,50.00,EUR,Canceled\norder-7,50.00,EUR,Paid\norder-1,50.00,EUR,Canceled',
        counts: { different: 1, theirs: 1, theirsDeclined: 1 },
      },
      /** Bug: a statement agreed although it took a payment back. Cause: a type that no table has was never compared. */
      ...[
        'charge_failure',
        'payment_failed',
        'RUECKLASTSCHRIFT',
        'Rücklastschrift',
        'RETOUREN',
        'Remboursement de paiement',
        'Reembolso',
        'Rimborso',
        'Terugbetaling',
        'a type that nobody knows',
        '',
      ].map((type) => ({
        name: `money taken back by the type “${type}”`,
        text: `Reference,Type,Amount,Currency\norder-1,charge,50.00,EUR\norder-1,${type},-50.00,EUR`,
        counts: { matched: 1, refundTheirs: 1 },
      })),
      ...['payment_charged_back', 'Charged-back', 'Charge-Back'].map((type) => ({
        name: `money taken back by the type “${type}”, which is a chargeback`,
        text: `Reference,Type,Amount,Currency\norder-1,charge,50.00,EUR\norder-1,${type},-50.00,EUR`,
        counts: { matched: 1, chargeback: 1 },
      })),
      {
        name: 'a refund by its status alone',
        text: 'Order Reference,Amount,Currency,Status\norder-1,-50.00,EUR,Refunded\norder-1,50.00,EUR,Settled\norder-9,-5.00,EUR,Partially Refunded',
        ours: [order(1), refundOf(1, order(1))],
        counts: { matched: 1, refundMatched: 1, refundTheirs: 1 },
      },
      {
        name: 'a negative line that names nothing of ours, or was declined',
        text: 'Reference,Type,Amount,Currency,Status\norder-1,,50.00,EUR,\nsupplier-7,transfer out,-9.00,EUR,\nNOTPROVIDED,rent,-800.00,EUR,\norder-1,,-50.00,EUR,failed',
        counts: { matched: 1, other: 3 },
      },
    ];

    it.each(cases)('$name', async ({ text, ours = day, counts }) => {
      const result = await compareText(`${text}\n`, () => ours);
      expect(countsOf(result)).toEqual(counts);
      const agreed = ['matched', 'theirsDeclined', 'chargeback', 'other'];
      expect(agreementOf(result).isAgreed).toBe(Object.keys(counts).every((name) => agreed.includes(name)));
      expect(totalsOf(result, 'theirsDeclined').theirs).toEqual([]);
    });

    it('a negative line without a type that names a payment, or a refund, of the day before', async () => {
      const refund = refundOf(1, order(1));
      const lines = ['order-2,50.00,EUR', 'order-1,-50.00,EUR', `${refund.idempotencyKey},-50.00,EUR`];
      const result = await compareText(`reference,amount,currency\n${lines.join('\n')}\n`, (offset) => {
        if (offset === 0) return [order(2)];
        return offset === -1 ? [order(1), refund] : [];
      });
      expect(countsOf(result)).toEqual({ matched: 1, refundTheirs: 1, refundOtherDay: 1 });
    });
  });

  it('does not agree where nothing was settled on the day', async () => {
    const other = await compare([rowOf(paymentOf(1))], [], { 1: [paymentOf(1)] });
    expect([countsOf(other), agreementOf(other)]).toEqual([
      { otherDay: 1 },
      { differences: 0, isOtherDay: true, namesNoOrder: false, isAgreed: false },
    ]);
    expect(agreementOf(await compare([rowOf(paymentOf(1))], [paymentOf(1)]))).toMatchObject({
      isOtherDay: false,
      isAgreed: true,
    });
  });

  /**
   * Bug: a statement of refunds alone agreed with a day next to its own, and one whose payments came late was of another day although its refunds
   * were of the day. Cause: the day was judged by payments only. Fix: payments and refunds are counted together.
   */
  it('judges the day of a statement by its payments and refunds together', async () => {
    const payment = paymentOf(1);
    const [refund, second] = [refundOf(1, payment), refundOf(2, payment)] as const;
    const lineOf = ({ idempotencyKey }: SettledPayment) => `${idempotencyKey},-100.50,USD,refund`;
    const compareWith = (lines: readonly string[], days: Partial<Record<DayOffset, readonly SettledPayment[]>>) =>
      compareText(`reference,amount,currency,type\n${lines.join('\n')}\n`, (day) => days[day] ?? []);
    const refundsOfOtherDay = await compareWith([lineOf(refund)], { 1: [refund] });
    expect([countsOf(refundsOfOtherDay), agreementOf(refundsOfOtherDay)]).toMatchObject([
      { refundOtherDay: 1 },
      { differences: 0, isOtherDay: true, isAgreed: false },
    ]);
    const latePayment = await compareWith([`${payment.idempotencyKey},100.50,USD,charge`, lineOf(refund)], {
      0: [refund],
      1: [payment],
    });
    expect([countsOf(latePayment), agreementOf(latePayment)]).toMatchObject([
      { otherDay: 1, refundMatched: 1 },
      { isOtherDay: false, isAgreed: true },
    ]);
    const lateRefund = await compareWith([lineOf(refund), lineOf(second)], { 0: [refund], 1: [second] });
    expect(agreementOf(lateRefund)).toMatchObject({ isOtherDay: false, isAgreed: true });
  });

  it('says whether any line names an order of the day, also a refund and an order number that two clients have', async () => {
    const order = (number: number) => paymentOf(number, { reference: `order-${number}`, attempt: 1 });
    const compareWith = (line: string, payments = [order(1)]) =>
      compareText(`order,amount,currency,type\n${line}\norder-9,5.00,USD,\n`, () => payments);
    expect(agreementOf(await compareWith('order-2,100.50,USD,'))).toMatchObject({
      namesNoOrder: true,
      isAgreed: false,
    });
    expect(agreementOf(await compareWith('order-2,100.50,USD,', []))).toMatchObject({ namesNoOrder: true });
    expect(agreementOf(await compareWith('order-1,1.00,USD,'))).toMatchObject({ namesNoOrder: false });
    expect(agreementOf(await compareWith('order-1,-100.50,USD,refund'))).toMatchObject({ namesNoOrder: false });
    expect(agreementOf(await compareWith(`${keyOf(1)},100.50,USD,`))).toMatchObject({ namesNoOrder: false });
    const two = [order(1), { ...order(2), reference: 'order-1' }];
    expect(agreementOf(await compareWith('order-1,100.50,USD,', two))).toMatchObject({ namesNoOrder: false });
    expect(agreementOf(await compareText('order,amount,currency\n', () => [order(1)]))).toMatchObject({
      namesNoOrder: false,
    });
  });

  /** Bug: each charge of `processor check` was "only at the processor", as a payment that Idempay lost would be. */
  it('knows a charge of `processor check`, which is no payment of ours', async () => {
    const check = '0190a000-0000-7000-8000-636865636b21';
    const lines = [
      `${keyOf(1)},,100.50,USD,`,
      `${check},,1.00,USD,`,
      `${check.toUpperCase()},,1.00,USD,`,
      `,${check},1.00,USD,`,
      ',idempay-check,1.00,USD,',
      `${check},,-1.00,USD,refund`,
    ];
    const days: DayOffset[] = [];
    const result = await compareText(`custom,order,amount,currency,type\n${lines.join('\n')}\n`, (day) => {
      days.push(day);
      return day === 0 ? [paymentOf(1)] : [];
    });
    expect(countsOf(result)).toEqual({ matched: 1, check: 5 });
    expect(totalsOf(result, 'check')).toEqual({ ours: [], theirs: [{ currency: 'USD', amount: '3.00' }] });
    expect(agreementOf(result).isAgreed).toBe(true);
    // No other day is searched for them.
    expect(days).toEqual([0]);
  });

  it('compares an order of ours whose name is that of the check', async () => {
    const ours = paymentOf(1, { reference: 'idempay-check', attempt: 1 });
    const result = await compareText('order,amount,currency\nidempay-check,1.00,USD\n', () => [ours]);
    expect(countsOf(result)).toEqual({ different: 1 });
  });

  it('takes another text next to the order number for no difference', async () => {
    const result = await compareText('custom,order,amount,currency\ncust-77,order-17,100.50,USD\n', () => [
      paymentOf(1, { reference: 'order-17', attempt: 1 }),
    ]);
    expect(countsOf(result)).toEqual({ matched: 1 });
  });

  it('drops no payment that stands above the names of the columns', async () => {
    const lines = [1, 2].map((number) => `${keyOf(number)},100.50,USD`);
    const payments = [paymentOf(1), paymentOf(2)];
    for (const [text, counts] of [
      [[lines[0], 'reference,amount,currency', lines[1]], { matched: 1, unread: 1 }],
      [[...lines, 'reference,amount,currency'], { unread: 2 }],
    ] as const) {
      expect(countsOf(await compareText(`${text.join('\n')}\n`, () => payments))).toEqual(counts);
    }
  });

  it('sees a line by key and a line by transaction id as one payment', async () => {
    const [byKey, byTransaction] = [rowOf(paymentOf(1)), { ...rowOf(paymentOf(1)), reference: 'ch_1' }];
    const result = await compare([byKey, byTransaction], [paymentOf(1)]);
    expect(countsOf(result)).toEqual({ matched: 1, duplicate: 1 });
  });

  it('does not call a payment missing whose line could not be read', async () => {
    const lines = [
      `${keyOf(1)},1e3,USD`,
      `${keyOf(2)},5,$`,
      `${keyOf(3)},"5,USD`,
      `x "${keyOf(4)}",5,USD`,
      `${keyOf(5)},5`,
    ];
    const payments = [1, 2, 3, 4, 5, 6].map((number) => paymentOf(number));
    const result = await compareText(`reference,amount,currency\n${lines.join('\n')}\n`, () => payments);
    expect(countsOf(result)).toEqual({ unread: 5, ours: 1 });
    expect(result.shown.unread.map(({ unread }) => unread?.line)).toEqual([2, 3, 4, 5, 6]);
    expect(totalsOf(result, 'unread')).toEqual({ ours: [{ currency: 'USD', amount: '502.50' }], theirs: [] });
  });

  it('counts what has a status that is not known in the totals', async () => {
    const result = await compare([{ ...rowOf(paymentOf(1)), status: 'on its way' }], [paymentOf(1)]);
    expect(countsOf(result)).toEqual({ different: 1 });
    expect(totalsOf(result, 'different').theirs).toEqual([{ currency: 'USD', amount: '100.50' }]);
  });

  /** Bug: a thousand at the processor agreed with our 1.00 EUR, and disagreed with our 1000 JPY. */
  describe('of an amount that may be read in two ways', () => {
    const compareAmounts = (payments: readonly SettledPayment[], amounts: readonly string[], reading = {}) =>
      compareText(
        `reference;amount;currency\n${payments.map(({ idempotencyKey, currency }, at) => `${idempotencyKey};${amounts[at]};${currency}\n`).join('')}`,
        () => payments,
        reading,
      );
    const [one, thousand, yen] = [
      paymentOf(1, { amount: '1.00', currency: 'EUR' }),
      paymentOf(2, { amount: '1000.00', currency: 'EUR' }),
      paymentOf(3, { amount: '1000', currency: 'JPY' }),
    ];

    it('reads none where no other line says which', async () => {
      const result = await compareAmounts([one, thousand], ['1.000', '1.000']);
      expect(countsOf(result)).toEqual({ unread: 2 });
      expect(result.problems.count).toBe(2);
    });

    it('knows that a currency has no decimals', async () => {
      expect(countsOf(await compareAmounts([yen], ['1.000']))).toEqual({ matched: 1 });
      expect(countsOf(await compareAmounts([yen], ['1,000']))).toEqual({ matched: 1 });
    });

    it('reads it as the other lines say', async () => {
      expect(countsOf(await compareAmounts([thousand, yen, paymentOf(4)], ['1.000', '1.000', '100,50']))).toEqual({
        matched: 3,
      });
      expect(countsOf(await compareAmounts([one, paymentOf(4)], ['1.000', '100.50']))).toEqual({ matched: 2 });
      expect(countsOf(await compareAmounts([thousand, paymentOf(4)], ['1,000', '100.50']))).toEqual({ matched: 2 });
    });

    it('reads it as a person says', async () => {
      expect(countsOf(await compareAmounts([thousand, yen], ['1.000', '1.000'], { decimalMark: ',' }))).toEqual({
        matched: 2,
      });
    });

    it('reads none where the lines contradict each other, or the currency has no third decimal', async () => {
      const payments = [one, paymentOf(4), paymentOf(5)];
      expect(countsOf(await compareAmounts(payments, ['1.000', '100,50', '100.50']))).toEqual({
        matched: 2,
        unread: 1,
      });
      const dinars = paymentOf(6, { amount: '1.005', currency: 'KWD' });
      expect(countsOf(await compareAmounts([one, dinars, paymentOf(4)], ['1.005', '1.005', '100.50']))).toEqual({
        unread: 1,
        matched: 2,
      });
    });
  });

  it('reads what an object says that the first lines left out, or refuses it', async () => {
    const payments = Array.from({ length: 61 }, (_, number) => paymentOf(number));
    const [declined, ...paid] = payments.map(({ idempotencyKey, amount, currency }) => ({
      idempotencyKey,
      amount,
      currency,
    }));
    const lines = [...paid, { ...declined, status: 'failed' }];
    expect((await compareText(ndjson(lines), () => payments)).shown.different).toMatchObject([{ differs: ['state'] }]);
    const head = ndjson(paid).split('\n');
    const { format, columns } = readHead(head);
    const late = await reconcile({ bytes: bytesOf(ndjson(lines)), format, columns }, oursIn(wholeExport(payments)));
    expect(countsOf(late)).toEqual({ matched: 60, unread: 1 });
  });

  it('does not take a text in JSON for a number', async () => {
    const line = { idempotencyKey: keyOf(1), currency: 'EUR' };
    const [one, thousand] = ['1.00', '1000.00'].map((amount) => paymentOf(1, { amount, currency: 'EUR' })) as [
      SettledPayment,
      SettledPayment,
    ];
    expect(countsOf(await compareText(ndjson([{ ...line, amount: '1.000' }]), () => [one]))).toEqual({ unread: 1 });
    const number = `{"idempotencyKey":"${keyOf(1)}","currency":"EUR","amount":1.000}\n`;
    expect(countsOf(await compareText(number, () => [one]))).toEqual({ matched: 1 });
    expect(countsOf(await compareText(number, () => [thousand]))).toEqual({ different: 1 });
  });

  it('takes a UUID that is no key of ours for an order number', async () => {
    const uuid = '3F2B8C1E-9d4a-4e6b-8a2f-1c5d7e9f0a1b';
    const payment = paymentOf(1, { reference: uuid, attempt: 1 });
    const text = (reference: string, order: string) =>
      `reference,order,amount,currency\n${reference},${order},100.50,USD\n`;
    expect(countsOf(await compareText(text('', uuid), () => [payment]))).toEqual({ matched: 1 });
    expect(countsOf(await compareText(text(uuid, ''), () => [payment]))).toEqual({ matched: 1 });
    const other = paymentOf(1, { reference: 'order-17', attempt: 1 });
    expect(countsOf(await compareText(text(uuid, 'order-17'), () => [other]))).toEqual({ matched: 1 });
    expect(countsOf(await compareText(text(keyOf(1).toUpperCase(), ''), () => [other]))).toEqual({ matched: 1 });
  });

  it('tells unknown payments of one sender apart by their order numbers, in a time that grows with their number', async () => {
    const lines = Array.from({ length: 20_000 }, (_, number) => `shop,${1000 + number},50.00,USD`);
    const result = await compareText(`reference,order,amount,currency\n${lines.join('\n')}\n`, () => []);
    expect(countsOf(result)).toEqual({ theirs: 20_000 });
    const same = Array.from({ length: 20_000 }, (_, number) => `gift,,${number + 1}.00,USD`);
    const gifts = await compareText(`reference,order,amount,currency\n${same.join('\n')}\n`, () => []);
    expect(countsOf(gifts)).toEqual({ theirs: 1, duplicate: 19_999 });
  });

  it('skips what a spreadsheet padded before the names of the columns', async () => {
    const before = ['Konto;DE12 3456;;', 'Zeitraum;24.11.2026;;', 'Stand;;1.234,50;'];
    const lines = ['Bestellnummer;Status;Betrag;Währung', 'order-17;;100,50;USD'];
    const result = await compareText(`${[...before, ...lines].join('\n')}\n`, () => [
      paymentOf(1, { reference: 'order-17', attempt: 1 }),
    ]);
    expect([countsOf(result), result.problems.count]).toEqual([{ matched: 1 }, 0]);
  });

  describe('of refunds', () => {
    const order = paymentOf(1, { reference: 'order-1', attempt: 1 });
    const [first, second] = [
      refundOf(1, order, { amount: '20.00' }),
      refundOf(2, order, { amount: '30.50', settledAt: '2026-11-20T11:00:00.000Z' }),
    ];
    const charge = 'order-1,,100.50,USD,charge';
    const compareRefunds = (
      lines: readonly string[],
      exportOf: (day: DayOffset) => readonly SettledPayment[],
      names: Readonly<Record<string, PaymentNames>> = {},
    ) => compareText(`order,refund reference,amount,currency,type\n${lines.join('\n')}\n`, exportOf, {}, names);

    it('finds each by its key, in a column of its own or where the payment would stand', async () => {
      const lines = [
        charge,
        `order-1,${first.idempotencyKey},-20.00,USD,refund`,
        `${refundKeyOf(2)},,-30.50,USD,refund`,
      ];
      const result = await compareRefunds(lines, () => [order, first, second]);
      expect([countsOf(result), result.refundsFoundByPayment]).toEqual([{ matched: 1, refundMatched: 2 }, 0]);
      expect(totalsOf(result, 'refundMatched')).toEqual({
        ours: [{ currency: 'USD', amount: '50.50' }],
        theirs: [{ currency: 'USD', amount: '50.50' }],
      });
      expect(result).toMatchObject({ payments: 1, refunds: 2 });
      expect(agreementOf(result).isAgreed).toBe(true);
    });

    it('finds it by its key in a line that has no type', async () => {
      const text = `reference,amount,currency\n${first.idempotencyKey},-20.00,USD\n${second.idempotencyKey},30.50,USD\n`;
      expect(countsOf(await compareText(text, () => [first, second]))).toEqual({ refundMatched: 2 });
    });

    /** Bug: a refund that the processor made as a charge agreed. Cause: only the lines of refunds were asked which way their money went. */
    it.each([
      ['in a column of credits', 'reference;credit;debit;currency', 'K;100.50;;USD', 'R;20.00;;USD'],
      ['next to an amount', 'reference;amount;credit;debit;currency', 'K;100.50;100.50;0;USD', 'R;20.00;20.00;0;USD'],
      ['by the side of a bank', 'reference;amount;soll/haben;currency', 'K;100.50;H;USD', 'R;20.00;H;USD'],
      [
        'by the sign of another refund',
        'reference;type;amount;currency',
        'K;;100.50;USD\nx;refund;-5.00;USD',
        'R;;20;USD',
      ],
      [
        'by its type',
        'reference;type;amount;currency',
        'K;charge;100.50;USD\nx;refund;-5.00;USD',
        'R;charge;20.00;USD',
      ],
      ['by its type alone', 'reference;type;amount;currency', 'K;charge;100.50;USD', 'R;charge;20.00;USD'],
      [
        'by its type, with a column of refunds',
        'order;refund reference;type;amount;currency',
        'order-1;;charge;100.50;USD',
        'order-1;R;charge;20.00;USD',
      ],
    ])('finds none in a line whose money came in %s', async (_where, header, payment, refund) => {
      const named = (line: string) => line.replace(/^K/, keyOf(1)).replace(/\bR\b/, refundKeyOf(1));
      const text = `${[header, named(payment), named(refund)].join('\n')}\n`;
      const result = await compareText(text, () => [order, first]);
      expect(countsOf(result)).toMatchObject({ matched: 1, refundDifferent: 1 });
      expect(result.shown.refundDifferent).toMatchObject([{ differs: ['state'], ours: first }]);
      expect(totalsOf(result, 'refundDifferent').theirs).toEqual([]);
      const declined = await compareText(text, () => [order, { ...first, state: 'DECLINED' }]);
      expect(agreementOf(declined).isAgreed).toBe(false);
    });

    it('prefers the line whose money went out to one whose money came in', async () => {
      const lines = [`${refundKeyOf(1)},20.00,,USD`, `${refundKeyOf(1)},,20.00,USD`];
      for (const inOrder of [lines, lines.toReversed()]) {
        const result = await compareText(`reference,credit,debit,currency\n${inOrder.join('\n')}\n`, () => [first]);
        expect(countsOf(result)).toEqual({ refundMatched: 1, refundDuplicate: 1 });
        expect(result.shown.refundDuplicate).toMatchObject([{ theirs: { amount: '20.00' } }]);
      }
    });

    it('finds them by the payment and the amount where no line names a refund, and says so', async () => {
      const lines = [charge, 'order-1,,-30.50,USD,refund', 'order-1,,-20.00,USD,refund'];
      const result = await compareRefunds(lines, () => [order, first, second]);
      expect([countsOf(result), result.refundsFoundByPayment]).toEqual([{ matched: 1, refundMatched: 2 }, 2]);
      const same = { ...second, amount: '20.00' };
      const twice = await compareRefunds([charge, ...Array(2).fill(lines[2])], () => [order, first, same]);
      expect(countsOf(twice)).toEqual({ matched: 1, refundMatched: 2 });
      const once = await compareRefunds([charge, lines[2] ?? ''], () => [order, first, same]);
      expect(countsOf(once)).toEqual({ matched: 1, refundMatched: 1, refundOurs: 1 });
    });

    it('takes no line that names another refund', async () => {
      const lines = [charge, `order-1,${refundKeyOf(7)},-20.00,USD,refund`];
      const result = await compareRefunds(lines, () => [order, first]);
      expect(countsOf(result)).toEqual({ matched: 1, refundOurs: 1, refundTheirs: 1 });
      expect(result.shown.refundOurs).toMatchObject([{ ours: { refund: { payment: keyOf(1), name: 'line-1' } } }]);
    });

    it('tells a refund that was made by hand, one that is missing and another amount apart', async () => {
      const byHand = await compareRefunds([charge, 'order-1,,-20.00,USD,refund'], () => [order]);
      expect(countsOf(byHand)).toEqual({ matched: 1, refundTheirs: 1 });
      expect(agreementOf(byHand)).toMatchObject({ differences: 1, isAgreed: false });
      const missing = await compareRefunds([charge], () => [order, first]);
      expect(countsOf(missing)).toEqual({ matched: 1, refundOurs: 1 });
      expect(agreementOf(missing)).toMatchObject({ differences: 1, isAgreed: false });
      const cents = await compareRefunds([charge, 'order-1,,-20.01,USD,refund'], () => [order, first]);
      expect([countsOf(cents), cents.shown.refundDifferent]).toMatchObject([
        { matched: 1, refundDifferent: 1 },
        [{ differs: ['amount'], ours: first }],
      ]);
      expect(cents.refundsFoundByPayment).toBe(1);
      const euros = await compareRefunds([charge, `order-1,${refundKeyOf(1)},-20.00,EUR,refund`], () => [order, first]);
      expect(euros.shown.refundDifferent).toMatchObject([{ differs: ['currency'] }]);
      // Two amounts that are on one side only are not guessed to be one refund.
      const several = ['order-1,,-1.00,USD,refund', 'order-1,,-2.00,USD,refund'];
      expect(countsOf(await compareRefunds([charge, ...several], () => [order, first]))).toEqual({
        ...{ matched: 1, refundOurs: 1, refundTheirs: 2 },
      });
    });

    it('finds one on the day after, and takes the payment of another day from its names', async () => {
      const line = 'order-1,,-20.00,USD,refund';
      const asked: DayOffset[] = [];
      const names = { [keyOf(1)]: { reference: 'order-1', transactionId: 'TXN1' } };
      const onTheDayAfter = (day: DayOffset) => {
        asked.push(day);
        return day === 1 ? [first] : [];
      };
      const next = await compareRefunds([line], onTheDayAfter, names);
      expect([countsOf(next), asked]).toEqual([{ refundOtherDay: 1 }, [0, 1]]);
      // Listed, because the statement of its day may have it too.
      expect(next.shown.refundOtherDay).toMatchObject([{ ours: first, theirs: { line: 2, amount: '-20.00' } }]);
      expect(next.file).toContain(first.idempotencyKey);
      expect(countsOf(await compareRefunds([line], (day) => (day === 0 ? [first] : []), names))).toEqual({
        refundMatched: 1,
      });
      expect(countsOf(await compareRefunds([line], (day) => (day === 0 ? [first] : [])))).toEqual({
        refundOurs: 1,
        refundTheirs: 1,
      });
    });

    /** A bank may book a refund on its next day, by its own clock. */
    it.each([-1, 1] as const)(
      'finds one that was settled %i days from its line, as it finds a payment',
      async (settledOn) => {
        const lines = [charge, `order-1,${first.idempotencyKey},-20.00,USD,refund`, 'order-1,,-30.50,USD,refund'];
        const result = await compareRefunds(lines, (day) => (day === settledOn ? [order, first, second] : []));
        expect(countsOf(result)).toEqual({ otherDay: 1, refundOtherDay: 2 });
      },
    );

    it('tells the refund of the day, whose line comes a day late, from the refund of the day before', async () => {
      const names = { [keyOf(1)]: { reference: 'order-1', transactionId: 'TXN1' } };
      const settled: Partial<Record<DayOffset, SettledPayment[]>> = { [-1]: [first], 0: [second] };
      const exportOf = (day: DayOffset) => settled[day] ?? [];
      const result = await compareRefunds(['order-1,,-20.00,USD,refund'], exportOf, names);
      expect(countsOf(result)).toEqual({ refundOtherDay: 1, refundOurs: 1 });
      expect(result.shown.refundOurs).toMatchObject([{ ours: { amount: '30.50' } }]);
    });

    it('does not choose between the payments of two clients', async () => {
      const other = paymentOf(2, { reference: 'order-1', attempt: 1 });
      const ours = [order, other, first, refundOf(3, other, { amount: '20.00' })];
      const result = await compareRefunds(['order-1,,-20.00,USD,refund'], () => ours);
      expect(countsOf(result)).toMatchObject({ refundOurs: 2, refundTheirs: 1 });
    });

    it('expects no declined refund on a statement, and reports a line that was written twice or cannot be read', async () => {
      const declined = { ...first, state: 'DECLINED' as const };
      expect(countsOf(await compareRefunds([charge], () => [order, declined]))).toEqual({
        matched: 1,
        refundUnlisted: 1,
      });
      const line = `order-1,${refundKeyOf(1)},-20.00,USD,refund`;
      const twice = await compareRefunds([charge, line, line], () => [order, first]);
      expect(countsOf(twice)).toEqual({ matched: 1, refundMatched: 1, refundDuplicate: 1 });
      expect(twice.shown.refundDuplicate).toMatchObject([{ firstLine: 3, theirs: { line: 4 } }]);
      const failed = await compareRefunds([charge, line, `${line} failure`], () => [order, first]);
      expect(totalsOf(failed, 'refundDuplicate').theirs).toEqual([]);
      expect(agreementOf(failed).isAgreed).toBe(false);
      const unread = await compareRefunds([charge, line.replace('20.00', 'much')], () => [order, first]);
      expect(countsOf(unread)).toEqual({ matched: 1, refundUnread: 1 });
      expect(agreementOf(unread)).toMatchObject({ differences: 0, isAgreed: false });
    });

    it('takes the lines of a refund that failed as one decline, and says so where it was made', async () => {
      const failed = { ...first, state: 'DECLINED' as const };
      const named = `order-1,${refundKeyOf(1)},-20.00,USD,refund`;
      for (const [line, back] of [
        [named, `order-1,${refundKeyOf(1)},20.00,USD,refund_failure`],
        [named, 'order-1,,20.00,USD,RefundedReversed'],
        ['order-1,,-20.00,USD,Refunded', 'order-1,,20.00,USD,RefundedReversed'],
      ] as const) {
        for (const lines of [
          [charge, line, back],
          [back, line, charge],
        ]) {
          const declined = await compareRefunds(lines, () => [order, failed]);
          expect(countsOf(declined), back).toEqual({ matched: 1, refundMatched: 1, other: 1 });
          expect([totalsOf(declined, 'other').theirs, agreementOf(declined).isAgreed]).toEqual([[], true]);
          const made = await compareRefunds(lines, () => [order, first]);
          expect(countsOf(made), back).toEqual({ matched: 1, refundDifferent: 1, other: 1 });
          expect(made.shown.refundDifferent).toMatchObject([{ differs: ['state'] }]);
        }
      }
      const back = 'order-1,,20.00,USD,refund_failure';
      const unknown = await compareRefunds([charge, named, back], () => [order]);
      expect(countsOf(unknown)).toEqual({ matched: 1, refundTheirs: 1, other: 1 });
      // Another amount, another payment, or one of two refunds is not guessed to be the one that failed.
      const same = { ...second, amount: '20.00' };
      const both = [charge, named, named.replace(refundKeyOf(1), refundKeyOf(2)), back];
      expect(countsOf(await compareRefunds(both, () => [order, first, same]))).toEqual({
        ...{ matched: 1, refundMatched: 2, refundTheirs: 1 },
      });
      for (const other of [back.replace('20.00', '20.01'), back.replace('order-1', 'order-2')]) {
        const result = await compareRefunds([charge, named, other], () => [order, first]);
        expect(countsOf(result)).toEqual({ matched: 1, refundMatched: 1, refundTheirs: 1 });
      }
    });

    /** Bug: a refund agreed with the line whose money came back. Cause: the sign of a line about a refund was not looked at. */
    it.each([
      ['Returned refund', 'order,type,amount,currency', 'order-1,Returned refund,20.00,USD'],
      ['refund_funds_returned', 'order,type,amount,currency', 'order-1,refund_funds_returned,20.00,USD'],
      ['refund reversal', 'order,type,amount,currency', 'order-1,refund reversal,20.00,USD'],
      ['RefundFailed', 'order,type,currency,gross debit,gross credit', 'order-1,RefundFailed,USD,,20.00'],
      ['a credit', 'order,type,currency,debit,credit', 'order-1,Refund,USD,,20.00'],
      ['the side of a credit', 'order,type,currency,amount,Soll/Haben', 'order-1,Refund,USD,20.00,H'],
      [
        'a plus sign in a file whose refunds have a minus sign',
        'order,type,amount,currency',
        'order-1,refund,20.00,USD\norder-9,refund,-7.00,USD',
      ],
    ])('finds no refund in a line whose money came back: %s', async (_what, header, lines) => {
      const names = { [keyOf(1)]: { reference: 'order-1', transactionId: 'TXN1' } };
      const result = await compareText(`${header}\n${lines}\n`, (day) => (day === 0 ? [first] : []), {}, names);
      expect(result.shown.refundDifferent).toMatchObject([{ differs: ['state'], ours: first }]);
      expect([totalsOf(result, 'refundDifferent').theirs, countsOf(result).refundMatched]).toEqual([[], undefined]);
    });

    it('finds a refund without a sign in a file where none has one', async () => {
      const lines = [charge, 'order-1,,20.00,USD,refund', 'order-1,,-0.35,USD,fee'];
      expect(countsOf(await compareRefunds(lines, () => [order, first]))).toEqual({
        ...{ matched: 1, refundMatched: 1, fee: 1 },
      });
    });

    /** Bug: a statement agreed although the line of a payment says that it was given back. Cause: this column was not read. */
    it('finds those that only the lines of their payments say', async () => {
      const compareStated = (lines: readonly string[], ours: readonly SettledPayment[]) =>
        compareText(`order,amount,amount refunded,currency,captured,status,type\n${lines.join('\n')}\n`, () => ours);
      const line = 'order-1,100.50,20.00,USD,true,Partially Refunded,charge';
      const byHand = await compareStated([line], [order]);
      expect(countsOf(byHand)).toEqual({ matched: 1, refundTheirs: 1 });
      expect(byHand.shown.refundTheirs).toMatchObject([{ theirs: { line: 2, order: 'order-1', amount: '20.00' } }]);
      expect(byHand).toMatchObject({ rows: 1, lines: { read: 1 } });
      expect(countsOf(await compareStated([line], [order, first]))).toEqual({ matched: 1, refundMatched: 1 });
      // The statement has a line for the refund, or no money moved.
      const listed = [line, 'order-1,-20.00,0.00,USD,,,refund'];
      expect(countsOf(await compareStated(listed, [order, first]))).toEqual({ matched: 1, refundMatched: 1 });
      const thousand = { ...order, amount: '2000.50' };
      const given = await compareStated(['order-1,"2000,50",1.000,USD,true,Refunded,charge'], [thousand]);
      expect(given.shown.refundTheirs).toMatchObject([{ theirs: { amount: '1000.00' } }]);
      const open = await compareStated(['order-1,100.50,100.50,USD,false,Refunded,charge'], [order]);
      expect([countsOf(open), open.shown.different]).toMatchObject([{ different: 1 }, [{ differs: ['state'] }]]);
    });

    describe('of which only the status of a payment says', () => {
      const HEADER = 'reference,order,amount,currency,status';
      const compareStatus = (lines: readonly string[], exportOf: (day: DayOffset) => readonly SettledPayment[]) =>
        compareText(`${HEADER}\n${lines.join('\n')}\n`, exportOf);
      const whole = refundOf(3, order);
      const refunded = ',order-1,100.50,USD,Refunded';
      const partly = ',order-1,100.50,USD,Partially refunded';

      /** Bug: a refund that was made by hand agreed. Cause: the status of its payment said only that the payment was made. */
      it('shows one that was made by hand', async () => {
        const byHand = await compareStatus([refunded], () => [order]);
        expect([countsOf(byHand), totalsOf(byHand, 'refundTheirs').theirs]).toEqual([
          { matched: 1, refundTheirs: 1 },
          [{ currency: 'USD', amount: '100.50' }],
        ]);
        expect(countsOf(await compareStatus([refunded.replace('Refunded', 'Zurückgezahlt')], () => [order]))).toEqual({
          ...{ matched: 1, refundTheirs: 1 },
        });
        const part = await compareStatus([partly], () => [order]);
        expect([countsOf(part), totalsOf(part, 'refundTheirs').theirs]).toEqual([{ matched: 1, refundTheirs: 1 }, []]);
        expect(part.shown.refundTheirs).toMatchObject([{ theirs: { line: 2, order: 'order-1', amount: '' } }]);
        expect(agreementOf(part).isAgreed).toBe(false);
      });

      it('finds the refund of the whole payment, also on the day after', async () => {
        expect(countsOf(await compareStatus([refunded], () => [order, whole]))).toEqual({
          ...{ matched: 1, refundMatched: 1 },
        });
        const next = await compareStatus([refunded], (day) => (day === 0 ? [order] : [whole]));
        expect(countsOf(next)).toEqual({ matched: 1, refundOtherDay: 1 });
        const other = await compareStatus([refunded], () => [order, first]);
        expect(other.shown.refundDifferent).toMatchObject([{ differs: ['amount'], ours: first }]);
      });

      it('asks only for a refund of a part, because its amount is not known', async () => {
        // It was not compared with a line.
        expect(countsOf(await compareStatus([partly], () => [order, first]))).toEqual({ matched: 1, refundOurs: 1 });
        const next = await compareStatus([partly], (day) => (day === 1 ? [first] : day === 0 ? [order] : []));
        expect(countsOf(next)).toEqual({ matched: 1 });
        const declined = await compareStatus([partly], () => [order, { ...first, state: 'DECLINED' }]);
        expect(countsOf(declined)).toEqual({ matched: 1, refundUnlisted: 1, refundTheirs: 1 });
      });

      it('expects no second one where a line has it', async () => {
        for (const line of [`${first.idempotencyKey},,-20.00,USD,Paid`, `${keyOf(1)},order-1,-20.00,USD,Refunded`]) {
          for (const status of [refunded, partly]) {
            for (const lines of [
              [line, status],
              [status, line],
            ]) {
              const result = await compareStatus(lines, () => [order, first]);
              expect(countsOf(result), lines.join()).toEqual({ matched: 1, refundMatched: 1 });
            }
          }
        }
        const debit = await compareStatus([refunded, ',order-1,-100.50,USD,Paid'], () => [order]);
        expect(countsOf(debit)).toEqual({ matched: 1, refundTheirs: 1 });
      });
    });

    /** Bug: two refunds of a payment differed from what its line says was given back. Cause: that amount was compared with one refund. */
    it('finds several whose sum the line of their payment says', async () => {
      const header = 'order,amount,amount refunded,currency,status';
      const compareSum = (line: string, exportOf: (day: DayOffset) => readonly SettledPayment[]) =>
        compareText(`${header}\n${line}\n`, exportOf);
      const line = 'order-1,100.50,50.50,USD,Paid';
      const both = await compareSum(line, () => [order, first, second]);
      expect([countsOf(both), both.refundsFoundByPayment]).toEqual([{ matched: 1, refundMatched: 2 }, 1]);
      expect(totalsOf(both, 'refundMatched')).toEqual({
        ours: [{ currency: 'USD', amount: '50.50' }],
        theirs: [{ currency: 'USD', amount: '50.50' }],
      });
      expect(agreementOf(both).isAgreed).toBe(true);
      const rest = refundOf(4, order, { amount: '80.50' });
      expect(countsOf(await compareSum('order-1,100.50,,USD,Refunded', () => [order, first, rest]))).toEqual({
        ...{ matched: 1, refundMatched: 2 },
      });
      expect(countsOf(await compareSum(line.replace('50.50', '50.51'), () => [order, first, second]))).toEqual({
        ...{ matched: 1, refundOurs: 2, refundTheirs: 1 },
      });
      expect(countsOf(await compareSum(line.replace('50.50', '30.50'), () => [order, first, second]))).toEqual({
        ...{ matched: 1, refundMatched: 1, refundOurs: 1 },
      });
      const declined = { ...second, state: 'DECLINED' as const };
      expect(countsOf(await compareSum(line, () => [order, first, declined]))).toEqual({
        ...{ matched: 1, refundDifferent: 1, refundUnlisted: 1 },
      });
    });

    it('finds no refund in a line that has no amount', async () => {
      const lines = [charge, `order-1,${refundKeyOf(1)},-20.00,USD,refund`, `order-1,${refundKeyOf(1)},,,payout`];
      expect(countsOf(await compareRefunds(lines, () => [order, first]))).toMatchObject({ matched: 1 });
      const payout = `reference,amount,currency,type\n${first.idempotencyKey},,,payout\n`;
      expect(countsOf(await compareText(payout, () => [first]))).toEqual({ refundOurs: 1, other: 1 });
    });

    it('takes a line from the time when a refund was under way for no second one', async () => {
      const lines = ['pending', 'succeeded'].map((status) => ({ ...rowOf(first), type: 'refund', status }));
      for (const inOrder of [lines, lines.toReversed()]) {
        const result = await compareText(ndjson(inOrder), () => [first]);
        expect(countsOf(result)).toEqual({ refundMatched: 1, other: 1 });
        expect(agreementOf(result).isAgreed).toBe(true);
      }
    });

    it('knows a refund that comes late in a file of objects', async () => {
      const paid = Array.from({ length: 40 }, (_, number) => paymentOf(number));
      const lines = paid.map(({ idempotencyKey: reference, amount, currency }) => ({ reference, amount, currency }));
      const given = refundOf(1, order, { amount: '20.00' });
      const late = { reference: refundKeyOf(1), type: 'refund', charge: keyOf(1), amount: '20.00', currency: 'USD' };
      const { format, columns } = readHead(ndjson(lines).split('\n'));
      const file = { bytes: bytesOf(ndjson([...lines, late])), format, columns };
      expect(countsOf(await reconcile(file, oursIn(wholeExport([...paid, given]))))).toEqual({
        matched: 40,
        refundMatched: 1,
      });
    });

    it('writes their names into the file of differences', async () => {
      const { file } = await compareRefunds([charge, 'order-1,,-20.01,USD,refund'], () => [order, first]);
      expect(parse(file, { columns: true, bom: true })).toMatchObject([
        { difference: 'Refunds, different', 'our refund': 'line-1', 'refund of the payment': keyOf(1) },
      ]);
    });
  });

  describe('by order number', () => {
    const attempt = (number: number, changes: Partial<SettledPayment> = {}) =>
      paymentOf(number, { reference: 'order-17', attempt: number, ...changes });
    const lineOf = (amount: string, status: string) => `order-17,${amount},USD,${status}\n`;
    const compareOrders = (lines: readonly string[], exportOf: (day: DayOffset) => readonly SettledPayment[]) =>
      compareText(`order number,amount,currency,status\n${lines.join('')}`, exportOf);

    it('finds the payment, and the attempts that were declined', async () => {
      const payments = [attempt(1, { state: 'DECLINED' }), attempt(2)];
      const [declined, paid] = [lineOf('100.50', 'declined'), lineOf('100.50', 'paid')];
      for (const lines of [[paid], [paid, declined], [declined, paid]]) {
        expect(countsOf(await compareOrders(lines, () => payments))).toMatchObject({ matched: lines.length });
      }
      expect(countsOf(await compareOrders([paid, paid], () => payments))).toEqual({
        matched: 1,
        duplicate: 1,
        unlisted: 1,
      });
    });

    it('is the same in whatever order the attempts come', async () => {
      const attempts = [attempt(1, { state: 'DECLINED' }), attempt(2, { state: 'DECLINED' }), attempt(3)];
      const lines = [`${keyOf(2)},order-17,100.50,USD,failed`, `${keyOf(3)},order-17,100.50,USD,paid`];
      const text = `key,order number,amount,currency,status\n${lines.join('\n')}\n`;
      for (const order of [
        [0, 1, 2],
        [1, 0, 2],
        [2, 1, 0],
      ]) {
        const payments = order.map((index) => attempts[index] as SettledPayment);
        expect(countsOf(await compareText(text, () => payments))).toEqual({ matched: 2, unlisted: 1 });
      }
    });

    /**
     * Bug: a declined line was compared with the first declined attempt that came, which differed. Cause: each attempt took the
     * line that differs least from it, also if that line is another attempt. Fix: equal lines are taken first.
     */
    it('gives a declined line to the attempt that it equals, in whatever order the attempts come', async () => {
      const attempts = [
        attempt(1, { state: 'DECLINED' }),
        attempt(2, { state: 'DECLINED', amount: '90.00' }),
        attempt(3),
      ];
      for (const order of [
        [0, 1, 2],
        [2, 1, 0],
      ]) {
        const payments = order.map((index) => attempts[index] as SettledPayment);
        const lines = [lineOf('90.00', 'failed'), lineOf('100.50', 'paid')];
        expect(countsOf(await compareOrders(lines, () => payments))).toEqual({ matched: 2, unlisted: 1 });
        const [first] = (await compareOrders([lineOf('80.00', 'failed'), ...lines.slice(1)], () => payments)).shown
          .different;
        expect(first?.ours?.attempt).toBe(1);
      }
    });

    it('looks for an attempt that is not of the chosen day on the days next to it', async () => {
      const [declined, paid] = [attempt(1, { state: 'DECLINED' }), attempt(2)];
      const on = (days: Partial<Record<DayOffset, SettledPayment[]>>) => (day: DayOffset) => days[day] ?? [];
      const next = await compareOrders([lineOf('100.50', 'paid')], on({ 0: [declined], 1: [paid] }));
      expect(countsOf(next)).toEqual({ otherDay: 1, unlisted: 1 });
      const before = await compareOrders(
        [lineOf('100.50', 'failed'), lineOf('100.50', 'paid')],
        on({ 0: [paid], [-1]: [declined] }),
      );
      expect(countsOf(before)).toEqual({ matched: 1, otherDay: 1 });
    });

    it('differs in its state where no other attempt was made', async () => {
      const result = await compareOrders([lineOf('100.50', 'paid')], () => [attempt(1, { state: 'DECLINED' })]);
      expect(result.shown.different).toMatchObject([{ differs: ['state'] }]);
    });

    it('does not choose between the payments of two clients', async () => {
      const result = await compareOrders([lineOf('100.50', 'paid')], () => [attempt(1), attempt(2)]);
      expect(countsOf(result)).toEqual({ theirs: 1, ours: 2 });
    });

    it('finds it on the day after, and asks for no other day where it was found', async () => {
      const asked: DayOffset[] = [];
      const result = await compareOrders([lineOf('100.50', 'paid')], (day) => {
        asked.push(day);
        return day === 1 ? [attempt(1)] : [];
      });
      expect([countsOf(result), asked]).toEqual([{ otherDay: 1 }, [0, 1]]);
    });
  });

  it('asks for the days next to the chosen one only for rows that are left over', async () => {
    const asked: DayOffset[] = [];
    const days: Partial<Record<DayOffset, SettledPayment[]>> = { 0: [paymentOf(1)], 1: [paymentOf(2), paymentOf(3)] };
    const ask = (day: DayOffset) => {
      asked.push(day);
      return days[day] ?? [];
    };
    await compareText(ndjson([rowOf(paymentOf(1))]), ask);
    expect(asked).toEqual([0]);
    const result = await compareText(ndjson([1, 2].map((number) => rowOf(paymentOf(number)))), ask);
    expect(asked).toEqual([0, 0, 1]);
    expect(countsOf(result)).toEqual({ matched: 1, otherDay: 1 });
  });

  it('expects no decline on a statement, and takes one with us and not there for no difference', async () => {
    const declined = paymentOf(1, { state: 'DECLINED' });
    expect(countsOf(await compare([], [declined]))).toEqual({ unlisted: 1 });
    const listed = await compare([rowOf(declined)], [declined]);
    expect(countsOf(listed)).toEqual({ matched: 1 });
    expect(totalsOf(listed, 'matched')).toEqual({ ours: [], theirs: [] });
    const paid = await compare([{ ...rowOf(declined), status: 'succeeded' }], [declined]);
    expect(paid.shown.different).toMatchObject([{ differs: ['state'] }]);
  });

  it('names the line that it could not read, and compares the rest', async () => {
    const text = `key,amount,currency\n${keyOf(1)},1e3,USD\n${keyOf(2)},100.5,USD\n`;
    const result = await compareText(text, () => [paymentOf(2)]);
    expect(result.problems).toMatchObject({ count: 1, first: [{ line: 2, problem: expect.stringContaining('1e3') }] });
    expect(countsOf(result)).toEqual({ matched: 1 });
    expect(result).toMatchObject({ rows: 2, payments: 1 });
  });

  it('shows the first thousand of each kind, and all in the file', async () => {
    const rows = Array.from({ length: MOST_SHOWN + 200 }, (_, number) => rowOf(paymentOf(number)));
    const result = await compare(rows, []);
    expect(result.shown.theirs).toHaveLength(MOST_SHOWN);
    expect(parse(result.file, { columns: true, bom: true })).toHaveLength(rows.length);
  });

  it('writes a file that a spreadsheet does not run', async () => {
    const hostile = ['=HYPERLINK("http://a")', '+1+1', '-2-2', '@SUM(A1)', '\t=1', '＝1', 'a,"b"\nc'];
    const rows = hostile.map((status, number) => ({ ...rowOf(paymentOf(number)), status }));
    const result = await compare(rows, []);
    const records = parse<Record<string, string>>(result.file, { columns: true, bom: true });
    expect(records.map((record) => record['statement status'])).toEqual([
      ...['\'=HYPERLINK("http://a")', "'+1+1", "'-2-2", "'@SUM(A1)"],
      ...['=1', '＝1'].map((text) => `'${text}`),
      'a,"b"\nc',
    ]);
  });

  it('gives the same in every order of its lines, and counts each line once', async () => {
    const id = fc.constantFrom('', keyOf(1), keyOf(2), 'order-1', 'ORDER-1', 'ch_1', refundKeyOf(1));
    const line = fc.tuple(
      id,
      id,
      fc.constantFrom('', 'TXN1', 'TXN2', 'TXN3', 'TXN901'),
      fc.constantFrom('100.50', '100.5', '-100.50', '50', '1e3', '1.000'),
      fc.constantFrom('USD', 'EUR', '$'),
      fc.constantFrom('', 'paid', 'declined', 'refunded', 'pending'),
      fc.constantFrom('', 'charge', 'refund', 'fee', 'dispute', 'payout'),
    );
    const payment = fc.record({
      reference: fc.constantFrom(null, 'order-1'),
      state: fc.constantFrom('COMPLETED' as const, 'DECLINED' as const),
      amount: fc.constantFrom('100.50', '50.00'),
    });
    const refund = fc.record({
      of: fc.nat(2),
      state: fc.constantFrom('COMPLETED' as const, 'DECLINED' as const),
      amount: fc.constantFrom('100.50', '50.00'),
    });
    const header = 'reference;order;transaction id;amount;currency;status;type';
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 8 }),
        fc.tuple(fc.array(payment, { maxLength: 3 }), fc.array(refund, { maxLength: 4 })),
        fc.nat(2),
        fc.infiniteStream(fc.nat()),
        async (lines, [made, given], beside, order) => {
          const payments = [
            ...made.map((changes, number) => paymentOf(number, changes)),
            ...given.map(({ of, ...changes }, number) => refundOf(number, paymentOf(of), changes)),
          ];
          const compareLines = (some: readonly (readonly string[])[]) =>
            compareText(`${[header, ...some.map((cells) => cells.join(';'))].join('\n')}\n`, (day) => {
              if (day === 0) return payments.slice(beside);
              return day === 1 ? payments.slice(0, beside) : [];
            });
          const contentOf = ({ groups, file, problems }: Compared) => [
            Object.entries(groups).map(([name, { count, ours, theirs }]) => [
              name,
              count,
              totalTexts(ours),
              totalTexts(theirs),
            ]),
            parse<Record<string, string>>(file, { columns: true, bom: true })
              .map((row) => JSON.stringify({ ...row, 'statement line': '', 'line that counts': '' }))
              .sort(),
            problems.count,
          ];
          const result = await compareLines(lines);
          const shuffled = lines
            .map((cells) => ({ cells, at: order.next().value }))
            .sort((one, two) => one.at - two.at);
          expect(contentOf(await compareLines(shuffled.map(({ cells }) => cells)))).toEqual(contentOf(result));
          const { ours, unread, unlisted, refundOurs, refundUnread, refundUnlisted, ...withLine } = result.groups;
          const counted = Object.values(withLine).reduce((sum, { count }) => sum + count, 0);
          const all = counted + result.problems.count;
          const filled = lines.filter((cells) => cells.some((cell) => cell !== ''));
          // The status of a payment may state a refund, which is counted besides its line.
          const stating = filled.filter((cells) => cells.includes('refunded'));
          expect(all).toBeGreaterThanOrEqual(filled.length);
          expect(all).toBeLessThanOrEqual(filled.length + stating.length);
          expect(unread.count).toBeLessThanOrEqual(result.problems.count);
          expect(refundUnread.count).toBeLessThanOrEqual(result.problems.count);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('counts each row and each payment exactly once, and its totals are exact', async () => {
    const side = fc.record({
      with: fc.constantFrom('both', 'ours', 'theirs'),
      cents: fc.bigInt(1n, 10n ** 15n),
      more: fc.constantFrom(0n, 0n, 1n, 10n ** 13n),
      currency: fc.constantFrom('USD', 'EUR'),
      twice: fc.nat(3).map((number) => number === 0),
    });
    const amountOf = (cents: bigint) => `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`;
    await fc.assert(
      fc.asyncProperty(fc.array(side, { maxLength: 30 }), fc.infiniteStream(fc.nat()), async (sides, order) => {
        const made = sides.map(({ with: who, cents, more, currency, twice }, number) => {
          const payment = paymentOf(number, { amount: amountOf(cents), currency });
          return { who, payment, row: { ...rowOf(payment), amount: amountOf(cents + more) }, twice };
        });
        const payments = made.filter(({ who }) => who !== 'theirs').map(({ payment }) => payment);
        const rows = made.filter(({ who }) => who !== 'ours').flatMap(({ row, twice }) => (twice ? [row, row] : [row]));
        const shuffled = rows.map((row) => ({ row, at: order.next().value })).sort((one, two) => one.at - two.at);
        const result = await compare(
          shuffled.map(({ row }) => row),
          payments,
        );
        const { matched, different, ours, theirs, duplicate } = result.groups;
        expect(matched.count + different.count + ours.count).toBe(payments.length);
        expect(matched.count + different.count + theirs.count + duplicate.count).toBe(rows.length);
        expect(different.count).toBe(sides.filter((one) => one.with === 'both' && one.more > 0n).length);
        expect(duplicate.count).toBe(sides.filter((one) => one.with !== 'ours' && one.twice).length);
        for (const currency of ['USD', 'EUR']) {
          const sumOf = (list: readonly { amount: string; currency: string }[]) =>
            list.reduce(
              (sum, row) => (row.currency === currency ? sum + BigInt(row.amount.replace('.', '')) : sum),
              0n,
            );
          const counted = (side: 'ours' | 'theirs', kinds: readonly (keyof typeof result.groups)[]) =>
            kinds.reduce((sum, kind) => sum + (result.groups[kind][side].get(currency) ?? 0n), 0n) / 1_000_000n;
          expect(counted('ours', ['matched', 'different', 'ours'])).toBe(sumOf(payments));
          expect(counted('theirs', ['matched', 'different', 'theirs', 'duplicate'])).toBe(sumOf(rows));
        }
      }),
    );
  });
});
