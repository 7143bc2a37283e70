import { accountProblem } from '../../transactions/account.js';
import { plainDecimalOf, readAmount } from '../../transactions/amount.js';
import { MAX_CREATED_TOGETHER } from '../../transactions/creation.js';
import {
  LAST_TRANSACTION_ID,
  type NewTransaction,
  TRANSACTION_STATUSES,
  type TransactionStatus,
} from '../../transactions/transaction.js';
import { PublicError } from '../errors/public-error.js';
import { publicErrors } from '../errors/public-errors.js';
import { type JsonBody, type JsonMember, membersOf, type RowsMember } from '../requests/json-body.js';

type Members = ReadonlyMap<string, JsonMember>;

const PLAIN_POSITIVE_INTEGER = /^[1-9][0-9]*$/;

/** The transaction a body asks for; throws the 400 that names the member (rules T2 to T4). */
export function readNewTransaction(body: JsonBody): NewTransaction {
  const members = requiredMembers(body);
  const fromAccount = account(members, 'fromAccount');
  const toAccount = account(members, 'toAccount');
  if (fromAccount === toAccount) throw publicErrors.invalidBody("'fromAccount' and 'toAccount' must differ.");

  const member = members.get('amount');
  if (member === undefined || !('text' in member)) {
    throw publicErrors.invalidBody("'amount' is required: a JSON number or a string holding a decimal number.");
  }
  const amount = readAmount(member.type === 'number' ? plainDecimalOf(member.text) : member.text);
  if (typeof amount !== 'string') throw publicErrors.invalidBody(amount.problem);

  const status = members.has('status') ? statusOf(members.get('status')) : 'PENDING';
  return { fromAccount, toAccount, amount, status };
}

/** Where the rows of a batch are in its body. */
export const BATCH_ROWS: RowsMember = { name: 'transactions', most: MAX_CREATED_TOGETHER };

/** The transactions that the body of a batch asks for; throws the 400 that names the first wrong row and its member. */
export function readNewTransactions(body: JsonBody): NewTransaction[] {
  const member = requiredMembers(body).get(BATCH_ROWS.name);
  if (member?.type !== 'rows' || member.rows.length === 0) {
    throw publicErrors.invalidBody(
      `'${BATCH_ROWS.name}' is required: an array of 1 to ${BATCH_ROWS.most} objects, each as for POST /api/transactions.`,
    );
  }
  return member.rows.map(readRow);
}

function readRow(row: JsonBody, index: number): NewTransaction {
  const name = `${BATCH_ROWS.name}[${index}]`;
  if (row.kind !== 'object') throw publicErrors.invalidBody(`${name}: must be a JSON object.`);
  if (row.duplicate !== undefined)
    throw publicErrors.invalidBody(`${name}: '${row.duplicate}' appears more than once.`);
  try {
    return readNewTransaction(row);
  } catch (error) {
    throw error instanceof PublicError ? publicErrors.invalidBody(`${name}: ${error.message}`) : error;
  }
}

/** The new status: from the body, from `?newStatus=`, or from both when they agree (rule T5). */
export function readNewStatus(body: JsonBody | undefined, fromQuery: string | undefined): TransactionStatus {
  const inQuery = fromQuery === undefined ? undefined : statusNamed(fromQuery, 'newStatus');
  if (body === undefined) {
    if (inQuery) return inQuery;
    throw publicErrors.invalidBody('Send the new status as a body {"status":"FLAGGED"} or as ?newStatus=FLAGGED.');
  }
  const inBody = statusOf(requiredMembers(body).get('status'));
  if (inQuery && inQuery !== inBody)
    throw publicErrors.invalidBody("'status' and 'newStatus' differ. Send one of them.");
  return inBody;
}

/**
 * The id of a path; throws the 400 for what is no plain positive integer. One that is too large for any transaction is
 * read as 0, which no transaction has either.
 */
export function readTransactionId(text: string): { text: string; id: number } {
  if (text === '') throw publicErrors.unknownRoute();
  if (!PLAIN_POSITIVE_INTEGER.test(text)) throw publicErrors.invalidTransactionId();
  const id = Number(text);
  return { text, id: id <= LAST_TRANSACTION_ID ? id : 0 };
}

function requiredMembers(body: JsonBody): Members {
  const members = membersOf(body);
  if ('problem' in members) throw publicErrors.invalidBody(members.problem);
  return members;
}

function account(members: Members, name: 'fromAccount' | 'toAccount'): string {
  const member = members.get(name);
  if (member?.type !== 'string')
    throw publicErrors.invalidBody(`'${name}' is required: a string of 1 to 64 characters.`);
  const problem = accountProblem(name, member.text);
  if (problem) throw publicErrors.invalidBody(problem);
  return member.text;
}

function statusOf(member: JsonMember | undefined): TransactionStatus {
  return statusNamed(member?.type === 'string' ? member.text : undefined, 'status');
}

function statusNamed(name: string | undefined, member: string): TransactionStatus {
  const status = TRANSACTION_STATUSES.find((known) => known === name);
  if (!status) throw publicErrors.invalidBody(`'${member}' must be one of ${TRANSACTION_STATUSES.join(', ')}.`);
  return status;
}
