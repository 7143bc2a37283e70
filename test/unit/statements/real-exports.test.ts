/** Statements with the columns and the habits of the programs that finance departments use. Names and amounts are made up. */
import { describe, expect, it } from 'vitest';
import { totalTexts } from '#idempay/statements/amounts.js';
import type { Difference, SettledPayment } from '#idempay/statements/differences.js';
import { readHead } from '#idempay/statements/format.js';
import { type Reconciliation, reconcile } from '#idempay/statements/reconcile.js';
import type { Reading } from '#idempay/statements/row.js';
import { type Random, seededRandom, seedFrom } from '../../../testkit/random.js';

const ORDERS = 20;

const keyOf = (number: number) => `0190a000-0000-7000-8000-${String(number).padStart(12, '0')}`;
const order = (number: number, amount: string, currency: string, changes: Partial<SettledPayment> = {}) => ({
  idempotencyKey: keyOf(number),
  reference: `order-${number}`,
  attempt: 1,
  state: 'COMPLETED' as const,
  amount,
  currency,
  transactionId: `TXN${number}`,
  claimedAt: '2026-11-24T10:00:00.000Z',
  settledAt: '2026-11-24T10:00:01.000Z',
  ...changes,
});

interface Statement {
  readonly name: string;
  /** As it stands in the file; its last lines are the payments. */
  readonly before: readonly string[];
  readonly lines: readonly string[];
  readonly end?: string;
  readonly payments: readonly SettledPayment[];
  /** The choices of a person. */
  readonly chosen?: Partial<Reading>;
  readonly counts: Readonly<Record<string, number>>;
  readonly totals: Readonly<Record<string, string>>;
}

const STATEMENTS: readonly Statement[] = [
  {
    name: 'Stripe, balance history',
    before: [
      'id,Type,Source,Amount,Fee,Destination Platform Fee,Net,Currency,Created (UTC),Available On (UTC),Description,order_id (metadata)',
    ],
    lines: [
      'txn_1,charge,ch_1,50.00,1.75,,48.25,eur,2026-11-24 10:00,2026-11-26 00:00,Order 1,order-1',
      'txn_2,refund,re_1,-50.00,0.00,,-50.00,eur,2026-11-24 12:00,2026-11-26 00:00,"Refund of ""Order 1""",order-1',
      'txn_3,charge,ch_2,"1,200.00",36.00,,"1,164.00",eur,2026-11-24 10:05,2026-11-26 00:00,Order 2,order-2',
      'txn_4,stripe_fee,,-2.00,0.00,,-2.00,eur,2026-11-24 23:00,2026-11-24 00:00,Radar,',
      'txn_5,payout,po_1,"-1,160.25",0.00,,"-1,160.25",eur,2026-11-25 00:00,2026-11-25 00:00,STRIPE PAYOUT,',
      'txn_6,adjustment,dp_1,-20.00,15.00,,-35.00,eur,2026-11-24 15:00,2026-11-24 00:00,Chargeback withdrawal for ch_3,order-3',
    ],
    payments: [order(1, '50.00', 'EUR'), order(2, '1200.00', 'EUR'), order(3, '20.00', 'EUR')],
    counts: { matched: 2, ours: 1, refundTheirs: 1, fee: 1, other: 2 },
    totals: { matched: '1250.00 EUR', refundTheirs: '50.00 EUR', fee: '-2.00 EUR', other: '-1180.25 EUR' },
  },
  {
    // Its `order_id` is the company's own; ours is the receipt.
    name: 'Razorpay, settlement',
    before: ['entity_id,type,debit,credit,currency,fee,tax,settlement_id,payment_id,order_id,order_receipt,method'],
    lines: [
      'pay_1,payment,0.00,500.00,INR,10.00,1.80,setl_1,pay_1,order_Abc1,order-1,card',
      'rfnd_1,refund,500.00,0.00,INR,0.00,0.00,setl_1,pay_1,order_Abc1,order-1,card',
      'pay_2,payment,0.00,1200.00,INR,24.00,4.32,setl_1,pay_2,order_Abc2,order-2,upi',
    ],
    payments: [order(1, '500.00', 'INR'), order(2, '1200.00', 'INR')],
    counts: { matched: 2, refundTheirs: 1 },
    totals: { matched: '1700.00 INR', refundTheirs: '500.00 INR' },
  },
  {
    // Bug: the test had `merchant_reference`; the report has two of them, and its `payment_reference` is the payout's.
    name: 'Klarna, settlement',
    before: [
      'type,payment_reference,short_order_id,order_id,merchant_reference1,merchant_reference2,capture_id,amount,currency',
    ],
    lines: [
      'SALE,PAYOUT1,ABC1,5f1e0000-0000-1000-8000-000000000001,order-1,,cap_1,80.00,SEK',
      'RETURN,PAYOUT1,ABC1,5f1e0000-0000-1000-8000-000000000001,order-1,,cap_1,80.00,SEK',
      'FEE,PAYOUT1,ABC1,5f1e0000-0000-1000-8000-000000000001,order-1,,cap_1,-2.40,SEK',
    ],
    payments: [order(1, '80.00', 'SEK')],
    counts: { matched: 1, refundTheirs: 1, fee: 1 },
    totals: { matched: '80.00 SEK', refundTheirs: '80.00 SEK', fee: '-2.40 SEK' },
  },
  {
    name: 'Stripe, payments',
    before: [
      'id,Created date (UTC),Amount,Amount Refunded,Currency,Captured,Fee,Status,Statement Descriptor,idempay_reference (metadata)',
    ],
    lines: [
      `ch_1,2026-11-24 10:00,50.00,0.00,eur,true,1.75,Paid,SHOP,${keyOf(1)}`,
      `ch_2,2026-11-24 10:05,20.00,20.00,eur,true,0.80,Refunded,SHOP,${keyOf(2)}`,
      `ch_3,2026-11-24 10:06,9.00,0.00,eur,false,0.00,Failed,SHOP,${keyOf(3)}`,
      'ch_3AbC,2026-11-24 11:00,1.00,0.00,eur,true,0.10,Paid,SHOP,others_3AbC',
      'ch_3aBc,2026-11-24 11:00,1.00,0.00,eur,true,0.10,Paid,SHOP,others_3aBc',
    ],
    payments: [order(1, '50.00', 'EUR'), order(2, '20.00', 'EUR'), order(3, '9.00', 'EUR', { state: 'DECLINED' })],
    counts: { matched: 3, theirs: 2, refundTheirs: 1 },
    totals: { matched: '70.00 EUR', theirs: '2.00 EUR', refundTheirs: '20.00 EUR' },
  },
  {
    name: 'Stripe, itemised balance changes with an order of the shop',
    before: ['balance_transaction_id,reporting_category,currency,gross,order_id,payment_metadata[order_id]'],
    lines: ['txn_1,charge,eur,50.00,,order-1', 'txn_2,fee,eur,-2.00,,'],
    payments: [order(1, '50.00', 'EUR')],
    counts: { matched: 1, fee: 1 },
    totals: { matched: '50.00 EUR', fee: '-2.00 EUR' },
  },
  {
    name: 'PayPal, activity',
    before: [
      '"Date","Time","TimeZone","Name","Type","Status","Currency","Gross","Fee","Net","From Email Address","To Email Address","Transaction ID","Reference Txn ID","Invoice Number","Custom Number","Balance"',
    ],
    lines: [
      '"24/11/2026","10:00:00","CET","A Payer","Express Checkout Payment","Completed","EUR","1,234.50","-42.10","1,192.40","a@example.com","shop@example.com","4AB12345CD678901E","","order-1","","1,192.40"',
      '"24/11/2026","11:00:00","CET","A Payer","Payment Refund","Completed","EUR","-1,234.50","42.10","-1,192.40","shop@example.com","a@example.com","5AB12345CD678901F","4AB12345CD678901E","order-1","","0.00"',
      '"24/11/2026","12:00:00","CET","B ""Bob"" Payer","Website Payment","Denied","EUR","20.00","0.00","20.00","b@example.com","shop@example.com","6AB12345CD678901G","","order-2","","0.00"',
      '"24/11/2026","23:00:00","CET","","General Withdrawal","Completed","EUR","-1,000.00","0.00","-1,000.00","","","7AB12345CD678901H","","","","0.00"',
      '"24/11/2026","23:00:00","CET","","General Currency Conversion","Completed","USD","10.00","0.00","10.00","","","8AB12345CD678901I","","","","10.00"',
    ],
    payments: [order(1, '1234.50', 'EUR'), order(2, '20.00', 'EUR', { state: 'DECLINED' })],
    counts: { matched: 2, refundTheirs: 1, other: 2 },
    totals: { matched: '1234.50 EUR', refundTheirs: '1234.50 EUR', other: '-1000.00 EUR 10.00 USD' },
  },
  {
    name: 'Adyen, settlement details',
    before: [
      'Company Account,Merchant Account,Psp Reference,Merchant Reference,Payment Method,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Exchange Rate,Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC)',
    ],
    lines: [
      'Shop,ShopEU,8835000000000001,order-1,visa,2026-11-24 10:00:00,CET,Settled,,EUR,,50.00,1,EUR,,49.30,,0.10,0.20,0.40',
      'Shop,ShopEU,8835000000000001,order-1,visa,2026-11-24 12:00:00,CET,Refunded,8815000000000009,EUR,50.00,,1,EUR,50.00,,,,,',
      'Shop,ShopEU,8835000000000002,order-2,mc,2026-11-24 10:10:00,CET,Settled,,JPY,,1500,1,JPY,,1490,,10,,',
      'Shop,ShopEU,8835000000000003,order-3,mc,2026-11-24 10:20:00,CET,Chargeback,8815000000000010,EUR,7.00,,1,EUR,7.00,,,,,',
      'Shop,ShopEU,,Transaction Fees November,,2026-11-24 23:59:00,CET,Fee,,,,,,EUR,3.00,,,,,',
      'Shop,ShopEU,,"TX1, batch 7",,2026-11-24 23:59:00,CET,MerchantPayout,,,,,,EUR,96.00,,,,,',
      'Shop,ShopEU,,"Invoice 7",,2026-11-24 23:59:00,CET,InvoiceDeduction,,,,,,EUR,1.00,,,,,',
      'Shop,ShopEU,,"Misc",,2026-11-24 23:59:00,CET,MiscCosts,,,,,,EUR,1.00,,,,,',
    ],
    payments: [order(1, '50.00', 'EUR'), order(2, '1500', 'JPY')],
    // Bug: no file agreed. Cause: the fee and the payout have neither a gross amount nor a currency, and were not read.
    counts: { matched: 2, refundTheirs: 1, chargeback: 1, fee: 2, other: 2 },
    totals: { matched: '50.00 EUR 1500 JPY', refundTheirs: '50.00 EUR', chargeback: '-7.00 EUR' },
  },
  {
    name: 'Square, transactions',
    before: [
      'Date,Time,Time Zone,Gross Sales,Discounts,Net Sales,Tax,Tip,Partial Refunds,Total Collected,Source,Card,Fees,Net Total,Transaction ID,Payment ID,Event Type,Customer Reference ID,Reference ID',
    ],
    lines: [
      '2026-11-24,10:00:00,Eastern Time,"$1,050.00",$0.00,"$1,050.00",$0.00,$0.00,$0.00,"$1,050.00",Web,"$1,050.00",-$30.00,"$1,020.00",sq_1,pay_1,Payment,,order-1',
      '2026-11-24,11:00:00,Eastern Time,"-$1,050.00",$0.00,"-$1,050.00",$0.00,$0.00,$0.00,"-$1,050.00",Web,"-$1,050.00",$30.00,"-$1,020.00",sq_2,pay_2,Refund,,order-1',
      '2026-11-24,12:00:00,Eastern Time,$5.00,$0.00,$5.00,$0.00,$0.00,$0.00,$5.00,Web,$5.00,-$0.30,$4.70,sq_3,pay_3,Payment,,order-2',
    ],
    payments: [order(1, '1050.00', 'USD'), order(2, '5.50', 'USD')],
    chosen: { currency: 'USD' },
    counts: { matched: 1, different: 1, refundTheirs: 1 },
    totals: { matched: '1050.00 USD', different: '5.00 USD', refundTheirs: '1050.00 USD' },
  },
  {
    name: 'Shopify, payout transactions',
    before: [
      'Transaction Date,Type,Order,Card Brand,Card Source,Payout Status,Payout Date,Payout ID,Available On,Amount,Fee,Net,Checkout,Payment Method Name,Presentment Amount,Presentment Currency,Currency,VAT',
    ],
    lines: [
      '2026-11-24 10:00:00 +0100,charge,#order-1,visa,online,paid,2026-11-26,100,2026-11-26,50.00,1.75,48.25,#c1,card,50.00,EUR,EUR,0.00',
      '2026-11-24 11:00:00 +0100,refund,#order-1,visa,online,paid,2026-11-26,100,2026-11-26,-20.00,0.00,-20.00,#c1,card,-20.00,EUR,EUR,0.00',
      '2026-11-24 12:00:00 +0100,chargeback,#order-2,visa,online,paid,2026-11-26,100,2026-11-26,-9.00,15.00,-24.00,#c2,card,-9.00,EUR,EUR,0.00',
      '2026-11-24 13:00:00 +0100,charge,#order-2,visa,online,paid,2026-11-26,100,2026-11-26,9.00,0.30,8.70,#c2,card,9.00,EUR,EUR,0.00',
    ],
    payments: [order(1, '50.00', 'EUR'), order(2, '9.00', 'EUR')],
    counts: { matched: 2, refundTheirs: 1, chargeback: 1 },
    totals: { matched: '59.00 EUR', refundTheirs: '20.00 EUR', chargeback: '-9.00 EUR' },
  },
  {
    name: 'a German bank, CAMT as CSV',
    before: [
      '"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Verwendungszweck";"Glaeubiger ID";"Mandatsreferenz";"Kundenreferenz (End-to-End)";"Sammlerreferenz";"Beguenstigter/Zahlungspflichtiger";"Kontonummer/IBAN";"Betrag";"Waehrung";"Info"',
    ],
    lines: [
      '"DE00";"24.11.26";"24.11.26";"GUTSCHR. UEBERWEISUNG";"Bestellung 1";"";"";"order-1";"";"A";"DE01";"1.234,50";"EUR";"Umsatz gebucht"',
      '"DE00";"24.11.26";"24.11.26";"GUTSCHR. UEBERWEISUNG";"Bestellung 2";"";"";"order-2";"";"B";"DE02";"1.000";"EUR";"Umsatz gebucht"',
      '"DE00";"24.11.26";"24.11.26";"LASTSCHRIFT";"Miete";"";"";"NOTPROVIDED";"";"C";"DE03";"-800,00";"EUR";"Umsatz gebucht"',
      // Bug: money that the bank only expects agreed. Cause: `Info` was no status.
      '"DE00";"24.11.26";"24.11.26";"GUTSCHR. UEBERWEISUNG";"Bestellung 3";"";"";"order-3";"";"D";"DE04";"5,00";"EUR";"Umsatz vorgemerkt"',
    ],
    end: '\r\n',
    payments: [order(1, '1234.50', 'EUR'), order(2, '1000.00', 'EUR'), order(3, '5.00', 'EUR')],
    counts: { matched: 2, different: 1, other: 1 },
    totals: { matched: '2234.50 EUR', different: '5.00 EUR', other: '-800.00 EUR' },
  },
  {
    name: 'a German bank that writes the account before the header, with CR at the ends of lines',
    before: [
      '"Girokonto";"DE00"',
      '"Kontostand vom 24.11.2026:";"1.234,50 €"',
      '""',
      '"Buchungsdatum";"Wertstellung";"Status";"Zahlungspflichtige*r";"Verwendungszweck";"Umsatztyp";"IBAN";"Betrag (€)";"Kundenreferenz"',
    ],
    lines: [
      '"24.11.26";"24.11.26";"Gebucht";"A";"Bestellung 1";"Eingang";"DE01";"1.234,5";"order-1"',
      '"24.11.26";"24.11.26";"Gebucht";"B";"Bestellung 2";"Eingang";"DE02";"2,00";"=""order-2"""',
    ],
    end: '\r',
    payments: [order(1, '1234.50', 'EUR'), order(2, '2.00', 'EUR')],
    chosen: { currency: 'EUR' },
    counts: { matched: 2 },
    totals: { matched: '1236.50 EUR' },
  },
];

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

async function compare({ before, lines, end = '\n', payments, chosen }: Statement) {
  const text = [...before, ...lines].join(end) + end;
  const { format, columns } = readHead(text.split(end));
  const reading = { columns, ...chosen };
  const differences: Difference[] = [];
  const result = await reconcile(
    { ...reading, bytes: bytesOf(text), format },
    {
      async *paymentsOf(day) {
        yield day === 0 ? payments : [];
      },
      namesOf: async () => undefined,
    },
    (difference) => differences.push(difference),
  );
  return { result, differences };
}

const countsOf = ({ groups }: Reconciliation) =>
  Object.fromEntries(Object.entries(groups).flatMap(([name, { count }]) => (count > 0 ? [[name, count]] : [])));
const totalsOf = ({ groups }: Reconciliation) =>
  Object.fromEntries(
    Object.entries(groups).flatMap(([name, { theirs }]) => {
      const text = totalTexts(theirs).map(({ amount, currency }) => `${amount} ${currency}`);
      return text.length > 0 ? [[name, text.join(' ')]] : [];
    }),
  );
/** Without the numbers of lines, which another order changes. */
const contentOf = (differences: readonly Difference[]) =>
  differences
    .map(({ kind, differs, ours, theirs }) =>
      JSON.stringify([
        kind,
        differs,
        ours?.idempotencyKey,
        theirs?.reference,
        theirs?.order,
        theirs?.amount,
        theirs?.status,
      ]),
    )
    .sort();

const shuffled = <T>(items: readonly T[], random: Random): T[] =>
  items
    .map((item) => ({ item, at: random.fraction() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item);

describe.each(STATEMENTS)('$name', (statement) => {
  it('is compared as a person would', async () => {
    const { result } = await compare(statement);
    expect(result.problems.first.map(({ line, problem }) => `${line}: ${problem}`)).toEqual([]);
    expect(countsOf(result)).toEqual(statement.counts);
    expect(totalsOf(result)).toEqual(statement.totals);
    const { read, refused, skipped } = result.lines;
    expect([read, refused, skipped]).toEqual([statement.lines.length, 0, statement.before.length]);
  });

  it('gives the same in every order of its lines', async () => {
    const random = seededRandom(seedFrom('STATEMENT_SEED', 1));
    const first = await compare(statement);
    for (let time = 0; time < ORDERS; time += 1) {
      const { result, differences } = await compare({ ...statement, lines: shuffled(statement.lines, random) });
      expect([countsOf(result), totalsOf(result), contentOf(differences)]).toEqual([
        countsOf(first.result),
        totalsOf(first.result),
        contentOf(first.differences),
      ]);
    }
  });
});
