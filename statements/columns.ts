import { OUR_TRANSACTION } from './ids.js';

/** The members that a comparison needs from a statement. */
export const MEMBERS = [
  'reference',
  'order',
  'refund',
  'transactionId',
  'amount',
  'credit',
  'debit',
  'side',
  'currency',
  'status',
  'type',
  'refunded',
  'captured',
] as const;
export type Member = (typeof MEMBERS)[number];

/** The index of the column that has it. Undefined if none has. */
export type Columns = { readonly [member in Member]?: number | undefined };

/** In lower case, letters and digits only; the first whose column has a value counts. The Stripe adapter writes `idempay_order`. */
const NAMES: Readonly<Record<Member, string>> = {
  reference:
    'idempotencykey idempayreference reference merchantreference merchantreference1 paymentreference clientreference clientreferenceid customnumber custom referenceid externalreference externalid endtoendid endtoendreference kundenreferenzendtoend kundenreferenz ref key',
  order:
    'idempayorder orderreceipt order orderid ordernumber orderno orderreference invoicenumber invoiceid bestellnummer auftragsnummer rechnungsnummer',
  refund:
    'refundmetadataidempayreference idempayrefund refundkey refundreference merchantrefundreference modificationmerchantreference',
  transactionId: 'idempaytransaction transactionid merchanttransactionid txnid txid transaction txn',
  amount:
    'amount grossamount gross totalcollected paymentamount transactionamount betrag umsatz betragineur brutto value total',
  credit: 'grosscreditgc grosscredit credit creditamount haben paidin moneyin',
  debit: 'grossdebitgc grossdebit debit debitamount soll paidout moneyout',
  side: 'sollhaben sollhabenkennzeichen debitcredit creditdebit drcr crdr dc afbij transactiondebitorcredit creditdebitindicator',
  currency: 'currency currencycode ccy curr grosscurrency paymentcurrency waehrung währung',
  status: 'status outcome result paymentstatus transactionstatus state info',
  type: 'type typ transactiontype recordtype eventtype umsatztyp reportingcategory balancetransactiontype buchungstext kind',
  refunded: 'amountrefunded refundedamount',
  captured: 'captured',
};

/** `Umsatz gebucht`, `Umsatz vorgemerkt`. Any other column `Info` is no status. */
const STATUS_OF_SPARKASSE = /^Umsatz /;

/** By the names of the columns, in any case and spelling (`Transaction ID`, `transaction_id`), and by payments. */
export function recognisedColumns(names: readonly string[], rows: readonly (readonly string[])[] = []): Columns {
  const plain = names.map(plainName);
  const valuesOf = (index: number) => rows.map((row) => row[index]?.trim() ?? '').filter((value) => value !== '');
  const isFilled = (index: number) => rows.some((row) => (row[index]?.trim() ?? '') !== '');
  const isPossible = (member: Member, index: number) => {
    const values = valuesOf(index);
    if (plain[index] === 'info') return values.length > 0 && values.every((value) => STATUS_OF_SPARKASSE.test(value));
    return member !== 'transactionId' || rows.length === 0 || values.some((value) => OUR_TRANSACTION.test(value));
  };
  const found = (member: Member): number | undefined => {
    const known = NAMES[member].split(' ').filter((name) => plain.includes(name));
    const choices = known
      .map((name) => [...plain.keys()].filter((index) => plain[index] === name && isPossible(member, index)))
      .filter((indexes) => indexes.length > 0);
    const possible = choices.find((indexes) => indexes.some(isFilled)) ?? choices[0] ?? [];
    const ours = possible.find((index) => METADATA.test(names[index] ?? ''));
    return ours ?? possible.find(isFilled) ?? possible[0];
  };
  const columns = Object.fromEntries(MEMBERS.map((member) => [member, found(member)])) as Columns;
  return columns.side === undefined ? { ...columns, side: sideWithoutName(names, rows) } : columns;
}

const SIDES_OF_BANKS = /^[SH]?$/;

/** Volksbanks write `S` and `H` in a last column that has no name. */
function sideWithoutName(names: readonly string[], rows: readonly (readonly string[])[]): number | undefined {
  const last = names.length - 1;
  const values = rows.map((row) => row[last]?.trim() ?? '');
  const isSide = names[last]?.trim() === '' && values.every((value) => SIDES_OF_BANKS.test(value));
  return isSide && values.some((value) => value !== '') ? last : undefined;
}

/** How many members the names of a line say. */
export function recognisedCount(names: readonly string[]): number {
  return Object.values(recognisedColumns(names)).filter((index) => index !== undefined).length;
}

/** The members whose column has the same name as another one, so that nobody knows which is meant. */
export function repeatedMembers(columns: Columns, names: readonly string[]): readonly Member[] {
  const compared = names.map((name) => name.trim().toLowerCase());
  return MEMBERS.filter((member) => {
    const name = compared[columns[member] ?? -1];
    return name !== undefined && compared.indexOf(name) !== compared.lastIndexOf(name) && name !== '';
  });
}

/** `order_id (metadata)` and `payment_metadata[order_id]` are what Stripe calls the metadata of a payment. Its own `order_id` is another one. */
const METADATA = /^(?:payment_?)?metadata\[(.*)\]\s*$|\(metadata\)\s*$/i;

function plainName(name: string): string {
  const own = METADATA.exec(name.trim())?.[1] ?? name.replace(/\((?:metadata|[A-Z]{3}|[€£])\)\s*$/, '');
  return own.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
}

/** The reason why nothing can be compared with these columns, in a sentence. Undefined if it can. `currency`: the currency of all lines. */
export function problemOfColumns(columns: Columns, currency = ''): string | undefined {
  const { reference, order, transactionId, amount, credit, debit } = columns;
  if (reference === undefined && order === undefined && transactionId === undefined) {
    return 'Choose the column that has the idempotency key (many statements call it reference), the order number or our transaction id.';
  }
  if (amount === undefined && credit === undefined && debit === undefined)
    return 'Choose the column that has the amount, or those of credits and debits.';
  if (columns.currency === undefined && currency === '') return 'Choose the column that has the currency, or type it.';
  return undefined;
}
