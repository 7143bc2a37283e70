import { type JsonMember, type JsonText, membersOf } from '../platform/json-text.js';
import { accountProblem } from './account.js';
import { plainDecimalOf, readAmount } from './amount.js';
import { type NewTransaction, TRANSACTION_STATUSES, type TransactionStatus } from './transaction.js';

/** A sentence that names the member that is wrong. */
export interface Problem {
  readonly problem: string;
}

/** The transaction that an object asks for, whether it is the body of a request or a row of an import (rules T2 to T4). */
export function newTransactionIn(object: JsonText): NewTransaction | Problem {
  const members = membersOf(object);
  if ('problem' in members) return members;
  const fromAccount = accountIn(members, 'fromAccount');
  if (typeof fromAccount !== 'string') return fromAccount;
  const toAccount = accountIn(members, 'toAccount');
  if (typeof toAccount !== 'string') return toAccount;
  if (fromAccount === toAccount) return { problem: "'fromAccount' and 'toAccount' must differ." };

  const amount = amountIn(members.get('amount'));
  if (typeof amount !== 'string') return amount;
  const status = members.has('status') ? statusIn(members.get('status')) : 'PENDING';
  if (typeof status !== 'string') return status;
  return { fromAccount, toAccount, amount, status };
}

export function statusIn(member: JsonMember | undefined): TransactionStatus | Problem {
  return statusNamed(member?.type === 'string' ? member.text : undefined, 'status');
}

/** `member`: what the problem names. */
export function statusNamed(name: string | undefined, member: string): TransactionStatus | Problem {
  const status = TRANSACTION_STATUSES.find((known) => known === name);
  return status ?? { problem: `'${member}' must be one of ${TRANSACTION_STATUSES.join(', ')}.` };
}

function accountIn(members: ReadonlyMap<string, JsonMember>, name: 'fromAccount' | 'toAccount'): string | Problem {
  const member = members.get(name);
  if (member?.type !== 'string') return { problem: `'${name}' is required: a string of 1 to 64 characters.` };
  const problem = accountProblem(name, member.text);
  return problem === undefined ? member.text : { problem };
}

function amountIn(member: JsonMember | undefined): string | Problem {
  if (member === undefined || !('text' in member)) {
    return { problem: "'amount' is required: a JSON number or a string holding a decimal number." };
  }
  return readAmount(member.type === 'number' ? plainDecimalOf(member.text) : member.text);
}
