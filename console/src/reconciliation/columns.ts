/** What a comparison needs of a statement. */
export const MEMBERS = ['reference', 'transactionId', 'amount', 'currency', 'status'] as const;
export type Member = (typeof MEMBERS)[number];

/** The index of the column that has it. Undefined where none has. */
export type Columns = { readonly [member in Member]?: number | undefined };

/** In lower case, letters and digits only; the first that a statement has counts. */
const NAMES: Readonly<Record<Member, readonly string[]>> = {
  reference: [
    'idempotencykey',
    'reference',
    'merchantreference',
    'paymentreference',
    'clientreference',
    'clientreferenceid',
    'externalreference',
    'externalid',
    'ref',
    'key',
  ],
  transactionId: ['transactionid', 'merchanttransactionid', 'txnid', 'txid', 'transaction', 'txn'],
  amount: ['amount', 'grossamount', 'gross', 'paymentamount', 'transactionamount', 'value', 'total'],
  currency: ['currency', 'currencycode', 'ccy', 'curr', 'grosscurrency', 'paymentcurrency'],
  status: ['status', 'state', 'outcome', 'result', 'paymentstatus', 'transactionstatus'],
};

/** By the names of the columns, in any case and spelling: `Transaction ID`, `transaction_id`. */
export function recognisedColumns(names: readonly string[]): Columns {
  const plain = names.map((name) => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, ''));
  return Object.fromEntries(
    MEMBERS.map((member) => {
      const known = NAMES[member].find((name) => plain.includes(name));
      return [member, known === undefined ? undefined : plain.indexOf(known)];
    }),
  );
}

/** Why nothing can be compared with these columns, in a sentence. Undefined where it can. */
export function problemOfColumns({ reference, transactionId, amount, currency }: Columns): string | undefined {
  if (reference === undefined && transactionId === undefined) {
    return 'Choose the column that has the idempotency key (many statements call it reference) or our transaction id.';
  }
  if (amount === undefined) return 'Choose the column that has the amount.';
  if (currency === undefined) return 'Choose the column that has the currency.';
  return undefined;
}
