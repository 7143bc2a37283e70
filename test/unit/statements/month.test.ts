/** A month of payments and refunds, in the columns and the habits of each company whose shape is known. Names and amounts are made up. */
import { beforeAll, describe, expect, it } from 'vitest';
import { totalTexts } from '#idempay/statements/amounts.js';
import type { SettledPayment, SettledRefund } from '#idempay/statements/differences.js';
import { readHead } from '#idempay/statements/format.js';
import { agreementOf, type DayOffset, type Reconciliation, reconcile } from '#idempay/statements/reconcile.js';
import { type Random, seededRandom, seedFrom } from '../../../testkit/random.js';

const PAYMENTS = 120;
const OF_THE_MONTH_BEFORE = 20;
const DAYS = 30;

const keyOf = (number: number) => `0190a000-0000-7000-8000-${String(number).padStart(12, '0')}`;
const refundKeyOf = (number: number) => `f190a000-0000-8000-8000-${String(number).padStart(12, '0')}`;

interface Company {
  readonly name: string;
  readonly header: string;
  readonly currency: string;
  readonly chosenCurrency?: string;
  readonly charge: (payment: SettledPayment, amount: string) => string;
  /** `index`: the number of the payment, which is of any month. */
  readonly refund: (refund: SettledRefund, amount: string, index: number) => string;
  /** True if a line about a refund names it. The others name the payment only. */
  readonly namesRefunds?: boolean;
  readonly amount?: (amount: string) => string;
  /** Lines that are neither a payment nor a refund: fees, chargebacks of a payment that was refunded too, payouts. */
  readonly others: (payment: SettledPayment, amount: string) => readonly string[];
  readonly otherCounts: Readonly<Record<string, number>>;
  /** A refund that failed, as the company writes it. If omitted, it writes nothing. */
  readonly failed?: (refund: SettledRefund, amount: string, index: number) => readonly string[];
}

/** `1234.50` with a comma between thousands. */
const inThousands = (amount: string) => amount.replace(/\B(?=(\d{3})+\.)/g, ',');
const german = (amount: string) =>
  amount
    .replace('.', ';')
    .replace(/\B(?=(\d{3})+;)/g, '.')
    .replace(';', ',');

const COMPANIES: readonly Company[] = [
  {
    name: 'Stripe, balance history',
    header: 'id,Type,Source,Amount,Fee,Net,Currency,Created (UTC),Description,order_id (metadata)',
    currency: 'EUR',
    amount: inThousands,
    charge: ({ reference }, amount) => `txn_1,charge,ch_1,"${amount}",1.75,,eur,2026-11-24 10:00,Order,${reference}`,
    refund: (_, amount, index) => `txn_2,refund,re_1,"-${amount}",0.00,,eur,2026-11-24 12:00,Refund,order-${index}`,
    others: ({ reference }, amount) => [
      'txn_4,stripe_fee,,-2.00,0.00,,eur,2026-11-24 23:00,Radar,',
      `txn_5,adjustment,dp_1,"-${amount}",15.00,,eur,2026-11-24 15:00,Chargeback withdrawal for ch_1,${reference}`,
      'txn_6,payout,po_1,"-1,160.25",0.00,,eur,2026-11-25 00:00,STRIPE PAYOUT,',
    ],
    otherCounts: { fee: 1, other: 2 },
    failed: (_, amount, index) => [
      `txn_7,refund,re_9,"-${amount}",0.00,,eur,2026-11-24 12:00,Refund,order-${index}`,
      `txn_8,refund_failure,re_9,"${amount}",0.00,,eur,2026-11-27 12:00,Refund failed,order-${index}`,
    ],
  },
  {
    name: 'Stripe, itemised balance changes',
    header:
      'balance_transaction_id,created,reporting_category,currency,gross,fee,net,payment_metadata[idempay_reference],refund_metadata[idempay_reference]',
    currency: 'EUR',
    namesRefunds: true,
    charge: ({ idempotencyKey }, amount) => `txn_1,2026-11-24,charge,eur,${amount},0.10,,${idempotencyKey},`,
    refund: ({ idempotencyKey, refund }, amount) =>
      `txn_2,2026-11-24,refund,eur,-${amount},0.00,,${refund?.payment},${idempotencyKey}`,
    others: ({ idempotencyKey }, amount) => [
      'txn_4,2026-11-24,fee,eur,-2.00,0.00,,,',
      `txn_5,2026-11-24,dispute,eur,-${amount},15.00,,${idempotencyKey},`,
      'txn_6,2026-11-25,payout,eur,-1160.25,0.00,,,',
    ],
    otherCounts: { fee: 1, chargeback: 1, other: 1 },
    failed: ({ idempotencyKey, refund }, amount) => [
      `txn_7,2026-11-24,refund,eur,-${amount},0.00,,${refund?.payment},${idempotencyKey}`,
      `txn_8,2026-11-27,refund_failure,eur,${amount},0.00,,${refund?.payment},${idempotencyKey}`,
    ],
  },
  {
    name: 'Razorpay, settlement',
    header: 'entity_id,type,debit,credit,currency,fee,tax,settlement_id,payment_id,order_id,order_receipt,method',
    currency: 'INR',
    charge: ({ reference }, amount) =>
      `pay_1,payment,0.00,${amount},INR,10.00,1.80,setl_1,pay_1,order_A,${reference},card`,
    refund: (_, amount, index) => `rfnd_1,refund,${amount},0.00,INR,0.00,0.00,setl_1,pay_1,order_A,order-${index},card`,
    others: ({ reference }, amount) => [
      `adj_1,adjustment,${amount},0.00,INR,0.00,0.00,setl_1,pay_1,order_A,${reference},card`,
      'adj_2,adjustment,0.00,5.00,INR,0.00,0.00,setl_1,,,,',
    ],
    otherCounts: { other: 2 },
  },
  {
    // It writes what was given back without a sign.
    name: 'Klarna, settlement',
    header:
      'type,payment_reference,short_order_id,order_id,merchant_reference1,merchant_reference2,capture_id,amount,currency',
    currency: 'SEK',
    charge: ({ reference }, amount) =>
      `SALE,P1,ABC1,5f1e0000-0000-1000-8000-000000000001,${reference},,cap_1,${amount},SEK`,
    refund: (_, amount, index) =>
      `RETURN,P1,ABC1,5f1e0000-0000-1000-8000-000000000001,order-${index},,cap_1,${amount},SEK`,
    others: ({ reference }, amount) => [
      `FEE,P1,ABC1,5f1e0000-0000-1000-8000-000000000001,${reference},,cap_1,-2.40,SEK`,
      `FEE,P1,ABC1,5f1e0000-0000-1000-8000-000000000001,${reference},,cap_1,${amount},SEK`,
    ],
    otherCounts: { fee: 2 },
  },
  {
    name: 'PayPal, activity',
    header:
      '"Date","Type","Status","Currency","Gross","Fee","Net","Transaction ID","Reference Txn ID","Invoice Number","Custom Number"',
    currency: 'EUR',
    namesRefunds: true,
    amount: inThousands,
    charge: ({ reference, idempotencyKey }, amount) =>
      `"24/11/2026","Express Checkout Payment","Completed","EUR","${amount}","-1.00","","4AB","","${reference}","${idempotencyKey}"`,
    refund: ({ idempotencyKey }, amount, index) =>
      `"24/11/2026","Payment Refund","Completed","EUR","-${amount}","1.00","","5AB","4AB","order-${index}","${idempotencyKey}"`,
    others: ({ reference, idempotencyKey }, amount) => [
      `"24/11/2026","Chargeback","Completed","EUR","-${amount}","0.00","","6AB","4AB","${reference}","${idempotencyKey}"`,
      `"24/11/2026","Chargeback Fee","Completed","EUR","-16.00","0.00","","7AB","4AB","${reference}","${idempotencyKey}"`,
      '"24/11/2026","General Withdrawal","Completed","EUR","-1,000.00","0.00","","8AB","","",""',
    ],
    otherCounts: { chargeback: 1, fee: 1, other: 1 },
    failed: ({ idempotencyKey }, amount, index) => [
      `"24/11/2026","Payment Refund","Failed","EUR","-${amount}","0.00","","9AB","4AB","order-${index}","${idempotencyKey}"`,
    ],
  },
  {
    name: 'Adyen, settlement details',
    header:
      'Company Account,Merchant Account,Psp Reference,Merchant Reference,Creation Date,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC)',
    currency: 'EUR',
    charge: ({ reference }, amount) => `Shop,ShopEU,8835,${reference},2026-11-24,Settled,,EUR,,${amount},EUR,,`,
    refund: (_, amount, index) => `Shop,ShopEU,8835,order-${index},2026-11-24,Refunded,8815,EUR,${amount},,EUR,,`,
    others: ({ reference }, amount) => [
      `Shop,ShopEU,8835,${reference},2026-11-24,Chargeback,8816,EUR,${amount},,EUR,,`,
      `Shop,ShopEU,8835,${reference},2026-11-28,ChargebackReversed,8817,EUR,,${amount},EUR,,`,
      'Shop,ShopEU,,"TX1, batch 7",2026-11-24,MerchantPayout,,EUR,96.00,,EUR,,',
    ],
    otherCounts: { chargeback: 2, other: 1 },
    failed: (_, amount, index) => [
      `Shop,ShopEU,8835,order-${index},2026-11-24,Refunded,8818,EUR,${amount},,EUR,,`,
      `Shop,ShopEU,8835,order-${index},2026-11-27,RefundedReversed,8818,EUR,,${amount},EUR,,`,
    ],
  },
  {
    name: 'Square, transactions',
    header:
      'Date,Gross Sales,Total Collected,Fees,Net Total,Transaction ID,Payment ID,Event Type,Customer Reference ID,Reference ID',
    currency: 'USD',
    chosenCurrency: 'USD',
    amount: inThousands,
    charge: ({ reference }, amount) => `2026-11-24,,"$${amount}",-$0.30,,sq_1,pay_1,Payment,,${reference}`,
    refund: (_, amount, index) => `2026-11-24,,"-$${amount}",$0.30,,sq_2,pay_2,Refund,,order-${index}`,
    others: ({ reference }, amount) => [`2026-11-24,,"-$${amount}",$0.00,,sq_3,pay_1,Dispute,,${reference}`],
    otherCounts: { chargeback: 1 },
  },
  {
    name: 'Shopify, payout transactions',
    header: 'Transaction Date,Type,Order,Payout ID,Amount,Fee,Net,Presentment Amount,Presentment Currency,Currency,VAT',
    currency: 'EUR',
    charge: ({ reference }, amount) => `2026-11-24,charge,#${reference},100,${amount},1.75,,${amount},EUR,EUR,0.00`,
    refund: (_, amount, index) => `2026-11-24,refund,#order-${index},100,-${amount},0.00,,-${amount},EUR,EUR,0.00`,
    others: ({ reference }, amount) => [
      `2026-11-24,chargeback,#${reference},100,-${amount},15.00,,-${amount},EUR,EUR,0.00`,
      '2026-11-24,payout,,100,-96.00,0.00,,-96.00,EUR,EUR,0.00',
    ],
    otherCounts: { chargeback: 1, other: 1 },
    failed: (_, amount, index) => [
      `2026-11-24,refund,#order-${index},100,-${amount},0.00,,-${amount},EUR,EUR,0.00`,
      `2026-11-27,refund_failure,#order-${index},100,${amount},0.00,,${amount},EUR,EUR,0.00`,
    ],
  },
  {
    name: 'a German bank, CAMT as CSV',
    header: '"Buchungstag";"Buchungstext";"Verwendungszweck";"Kundenreferenz (End-to-End)";"Betrag";"Waehrung"',
    currency: 'EUR',
    namesRefunds: true,
    amount: german,
    charge: ({ reference }, amount) =>
      `"24.11.26";"GUTSCHR. UEBERWEISUNG";"Bestellung";"${reference}";"${amount}";"EUR"`,
    // The transfer back has the refund's own reference, and the type of every transfer.
    refund: ({ idempotencyKey }, amount) => `"24.11.26";"UEBERWEISUNG";"Storno";"${idempotencyKey}";"-${amount}";"EUR"`,
    others: (_, amount) => [
      '"24.11.26";"LASTSCHRIFT";"Miete";"NOTPROVIDED";"-800,00";"EUR"',
      `"24.11.26";"LASTSCHRIFT";"Ware";"NOTPROVIDED";"-${amount}";"EUR"`,
    ],
    otherCounts: { other: 2 },
  },
];

/** In none of the generated refunds. */
const FAILED = '0.07';
const failedOf = (payment: SettledPayment): SettledRefund => ({
  ...payment,
  ...{ idempotencyKey: refundKeyOf(88_888), reference: null, attempt: null, transactionId: 'TXN988888' },
  ...{ amount: FAILED, refund: { payment: payment.idempotencyKey, name: 'failed' } },
});

interface Month {
  readonly earlier: readonly SettledPayment[];
  readonly payments: readonly SettledPayment[];
  readonly refunds: readonly { readonly refund: SettledRefund; readonly index: number }[];
  readonly cents: { readonly paid: bigint; readonly refunded: bigint };
}

const textOf = (cents: bigint) => `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`;
const timeOf = (random: Random) => `2026-11-${String(1 + random.below(DAYS)).padStart(2, '0')}T10:00:00.000Z`;

/** Payments of the month, and refunds of one to three parts of a third of them and of payments of the month before. */
function monthOf(random: Random, currency: string): Month {
  const made = Array.from({ length: OF_THE_MONTH_BEFORE + PAYMENTS }, (_, index) => {
    const cents = BigInt(300 + random.below(400_000));
    const settledAt = timeOf(random);
    const payment: SettledPayment = {
      ...{ idempotencyKey: keyOf(index), reference: `order-${index}`, attempt: 1, state: 'COMPLETED' },
      ...{ amount: textOf(cents), currency, transactionId: `TXN${index}`, claimedAt: settledAt, settledAt },
    };
    return { payment, cents };
  });
  const refunds: { refund: SettledRefund; index: number }[] = [];
  let refunded = 0n;
  for (const [index, { payment, cents }] of made.entries()) {
    if (random.below(3) > 0) continue;
    const parts = 1 + random.below(3);
    for (let part = 0; part < parts; part += 1) {
      // One part is all of the payment. Two parts may have the same amount.
      const given = parts === 1 ? cents : cents / BigInt(parts) - BigInt(random.below(2));
      refunded += given;
      const number = refunds.length;
      const refund = { payment: payment.idempotencyKey, name: `line-${part + 1}` };
      const names = {
        idempotencyKey: refundKeyOf(number),
        reference: null,
        attempt: null,
        transactionId: `TXN9${number}`,
      };
      refunds.push({
        refund: { ...payment, ...names, amount: textOf(given), settledAt: timeOf(random), refund },
        index,
      });
    }
  }
  const ofTheMonth = made.slice(OF_THE_MONTH_BEFORE);
  const paid = ofTheMonth.reduce((sum, { cents }) => sum + cents, 0n);
  const all = made.map(({ payment }) => payment);
  return {
    earlier: all.slice(0, OF_THE_MONTH_BEFORE),
    payments: all.slice(OF_THE_MONTH_BEFORE),
    refunds,
    cents: { paid, refunded },
  };
}

const shuffled = <T>(items: readonly T[], random: Random): T[] =>
  items
    .map((item) => ({ item, at: random.fraction() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item);

/** `nextTo`: what was settled on the day after the month, or on the day before it. */
async function compare(
  { header, chosenCurrency }: Company,
  lines: readonly string[],
  month: Pick<Month, 'earlier' | 'payments'> & { readonly refunds: readonly { readonly refund: SettledRefund }[] },
  nextTo: Partial<Record<DayOffset, readonly SettledPayment[]>> = {},
) {
  const text = `${[header, ...lines].join('\n')}\n`;
  const { format, columns } = readHead(text.split('\n'));
  async function* bytes() {
    yield Buffer.from(text);
  }
  return reconcile(
    { bytes: bytes(), format, columns, currency: chosenCurrency },
    {
      async *paymentsOf(day) {
        yield day === 0 ? [...month.payments, ...month.refunds.map(({ refund }) => refund)] : (nextTo[day] ?? []);
      },
      namesOf: async (key) =>
        [...month.earlier, ...month.payments].find(({ idempotencyKey }) => idempotencyKey === key),
    },
  );
}

const countsOf = ({ groups }: Reconciliation) =>
  Object.fromEntries(Object.entries(groups).flatMap(([name, { count }]) => (count > 0 ? [[name, count]] : [])));

describe.each(COMPANIES)('a month of $name', (company) => {
  const { currency, charge, refund: refundLine, amount = (text: string) => text } = company;
  const random = seededRandom(seedFrom('STATEMENT_SEED', 1));
  let month: Month;
  let charges: readonly string[];
  let givenBack: readonly string[];
  beforeAll(() => {
    month = monthOf(random, currency);
    charges = month.payments.map((payment) => charge(payment, amount(payment.amount)));
    givenBack = month.refunds.map(({ refund, index }) => refundLine(refund, amount(refund.amount), index));
    expect(month.refunds.filter(({ index }) => index < OF_THE_MONTH_BEFORE).length).toBeGreaterThan(0);
  });

  it('agrees to the cent, payments and refunds', async () => {
    const { cents, refunds } = month;
    const result = await compare(company, shuffled([...charges, ...givenBack], random), month);
    expect(countsOf(result)).toEqual({ matched: PAYMENTS, refundMatched: refunds.length });
    expect(agreementOf(result)).toMatchObject({ differences: 0, isAgreed: true });
    for (const side of ['ours', 'theirs'] as const) {
      expect(totalTexts(result.groups.matched[side])).toEqual([{ currency, amount: textOf(cents.paid) }]);
      expect(totalTexts(result.groups.refundMatched[side])).toEqual([{ currency, amount: textOf(cents.refunded) }]);
    }
    expect(result.refundsFoundByPayment).toBe(company.namesRefunds ? 0 : refunds.length);
  });

  it('agrees to the cent with fees, chargebacks and payouts in it, which are no refunds', async () => {
    const { cents, refunds } = month;
    // The payment has a refund of the same amount.
    const given = refunds.at(-1) as Month['refunds'][number];
    const payment = month.payments[given.index - OF_THE_MONTH_BEFORE] as SettledPayment;
    const lines = [...charges, ...givenBack, ...company.others(payment, amount(given.refund.amount))];
    const result = await compare(company, shuffled(lines, random), month);
    expect(countsOf(result)).toEqual({ matched: PAYMENTS, refundMatched: refunds.length, ...company.otherCounts });
    expect(agreementOf(result)).toMatchObject({ differences: 0, isAgreed: true });
    expect(totalTexts(result.groups.matched.theirs)).toEqual([{ currency, amount: textOf(cents.paid) }]);
    expect(totalTexts(result.groups.refundMatched.theirs)).toEqual([{ currency, amount: textOf(cents.refunded) }]);
  });

  it('agrees to the cent with a refund that failed, and shows one that failed after it was made', async () => {
    const { cents, refunds } = month;
    const [payment] = month.payments as [SettledPayment];
    const lines = company.failed?.(failedOf(payment), amount(FAILED), OF_THE_MONTH_BEFORE) ?? [];
    const statement = shuffled([...charges, ...givenBack, ...lines], random);
    const compareWith = (refund: SettledRefund) =>
      compare(company, statement, { ...month, refunds: [...refunds, { refund }] });
    const declined = await compareWith({ ...failedOf(payment), state: 'DECLINED' });
    expect(countsOf(declined)).toEqual({
      ...{ matched: PAYMENTS, refundMatched: refunds.length + (lines.length > 0 ? 1 : 0) },
      ...(lines.length === 2 && { other: 1 }),
      ...(lines.length === 0 && { refundUnlisted: 1 }),
    });
    expect(agreementOf(declined)).toMatchObject({ differences: 0, isAgreed: true });
    expect(totalTexts(declined.groups.other.theirs)).toEqual([]);
    for (const side of ['ours', 'theirs'] as const) {
      expect(totalTexts(declined.groups.refundMatched[side])).toEqual([{ currency, amount: textOf(cents.refunded) }]);
    }
    const made = await compareWith(failedOf(payment));
    expect(countsOf(made)).toEqual({
      ...{ matched: PAYMENTS, refundMatched: refunds.length },
      ...(lines.length === 2 && { other: 1 }),
      ...(lines.length > 0 ? { refundDifferent: 1 } : { refundOurs: 1 }),
    });
    const { refundDifferent, refundOurs } = made.groups;
    const group = lines.length > 0 ? refundDifferent : refundOurs;
    expect([totalTexts(group.ours), totalTexts(group.theirs)]).toEqual([[{ currency, amount: FAILED }], []]);
  });

  it('agrees to the cent where a refund is of the next month on one side only', async () => {
    const { refunds } = month;
    const late = refunds.at(-1) as Month['refunds'][number];
    const others = { ...month, refunds: refunds.slice(0, -1) };
    const found = { refundOtherDay: 1 };
    // It is on the statement of the month, and settled in Idempay on the day after.
    const onTheDayAfter = await compare(company, [...charges, ...givenBack], others, { 1: [late.refund] });
    expect(countsOf(onTheDayAfter)).toEqual({
      ...{ matched: PAYMENTS, refundMatched: refunds.length - 1, ...found },
    });
    expect(agreementOf(onTheDayAfter)).toMatchObject({ differences: 0, isAgreed: true });
    const { ours, theirs } = onTheDayAfter.groups.refundOtherDay;
    expect(totalTexts(theirs)).toEqual(totalTexts(ours));
    // It is settled in Idempay on the last day, and on the next statement.
    const missing = await compare(company, [...charges, ...givenBack.slice(0, -1)], month);
    expect(countsOf(missing)).toEqual({
      ...{ matched: PAYMENTS, refundMatched: refunds.length - 1, refundOurs: 1 },
    });
    const nextMonth = { earlier: [...month.earlier, ...month.payments], payments: [], refunds: [] };
    const next = await compare(company, givenBack.slice(-1), nextMonth, { [-1]: [late.refund] });
    expect(countsOf(next)).toEqual(found);
  });

  it('shows a refund that was made by hand, and one that is missing', async () => {
    const [payment] = month.payments as [SettledPayment];
    const byHand = {
      ...payment,
      ...{ idempotencyKey: refundKeyOf(99_999), refund: { payment: payment.idempotencyKey, name: 'by-hand' } },
    };
    const more = refundLine(byHand, amount('0.05'), OF_THE_MONTH_BEFORE);
    const added = await compare(company, [...charges, ...givenBack, more], month);
    expect(countsOf(added)).toEqual({ matched: PAYMENTS, refundMatched: month.refunds.length, refundTheirs: 1 });
    expect(totalTexts(added.groups.refundTheirs.theirs)).toEqual([{ currency, amount: '0.05' }]);
    const missing = await compare(company, [...charges, ...givenBack.slice(1)], month);
    expect(countsOf(missing)).toEqual({
      ...{ matched: PAYMENTS, refundMatched: month.refunds.length - 1, refundOurs: 1 },
    });
  });
});
