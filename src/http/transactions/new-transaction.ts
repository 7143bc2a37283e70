import { newTransactionIn, type Problem } from '../../transactions/new-transaction.js';
import type { NewTransaction } from '../../transactions/transaction.js';
import { publicErrors } from '../errors/catalogue.js';
import { AT_MOST_15_DIGITS, NOT_ALL_ZEROS, PRINTED } from '../openapi/json-schema.js';
import { type JsonBody, type JsonMember, membersOf } from '../requests/json-body.js';

/** The transaction a body asks for; throws the 400 that names the member (rules T2 to T4). */
export function readNewTransaction(body: JsonBody): NewTransaction {
  return accepted(newTransactionIn(body));
}

export function requiredMembers(body: JsonBody): ReadonlyMap<string, JsonMember> {
  const members = membersOf(body);
  if ('problem' in members) throw publicErrors.invalidBody(members.problem);
  return members;
}

/** Throws the 400 if the value is a problem. */
export function accepted<Value extends string | object>(value: Value): Exclude<Value, Problem> {
  if (isProblem(value)) throw publicErrors.invalidBody(value.problem);
  return value as Exclude<Value, Problem>;
}

function isProblem(value: string | object): value is Problem {
  return typeof value === 'object' && 'problem' in value;
}

/** Bodies that no transaction is created of, by the names of their examples. */
export const WRONG_TRANSACTIONS = {
  notAnObject: '[]',
  memberTwice: '{"amount":1,"amount":2,"fromAccount":"alice","toAccount":"bob"}',
  fromAccountMissing: '{"toAccount":"bob","amount":"1"}',
  toAccountMissing: '{"fromAccount":"alice","amount":"1"}',
  fromAccountLength: '{"fromAccount":"","toAccount":"bob","amount":"1"}',
  toAccountLength: '{"fromAccount":"alice","toAccount":"","amount":"1"}',
  fromAccountCharacters: '{"fromAccount":"\\n","toAccount":"bob","amount":"1"}',
  toAccountCharacters: '{"fromAccount":"alice","toAccount":"\\n","amount":"1"}',
  sameAccount: '{"fromAccount":"alice","toAccount":"alice","amount":"1"}',
  amountMissing: '{"fromAccount":"alice","toAccount":"bob"}',
  amountNotPlain: '{"fromAccount":"alice","toAccount":"bob","amount":"-1"}',
  amountTooLong: '{"fromAccount":"alice","toAccount":"bob","amount":"0.00001"}',
  amountIsZero: '{"fromAccount":"alice","toAccount":"bob","amount":"0"}',
  invalidStatus: '{"fromAccount":"alice","toAccount":"bob","amount":"1","status":"DONE"}',
};

const accountSchema = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: `^${PRINTED}*$`,
  examples: ['alice'],
};

/** For readers and for clients that are generated: it never judges a request (`payments/pay.ts` says why). */
export const NewTransactionSchema = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused. `fromAccount` and `toAccount` must differ.',
  required: ['fromAccount', 'toAccount', 'amount'],
  properties: {
    fromAccount: { ...accountSchema, description: 'Kept and compared as sent, byte by byte.' },
    toAccount: { ...accountSchema, description: 'Another account than `fromAccount`.', examples: ['bob'] },
    amount: {
      description:
        'More than 0, at most 14 digits before and 4 after the point, 15 in all. A JSON number is judged by its text, and may have an exponent (of at most two digits) and trailing zeros where its exact value obeys the rule; a string may not have an exponent.',
      anyOf: [
        {
          type: 'string',
          pattern: `^${NOT_ALL_ZEROS}${AT_MOST_15_DIGITS}(?:0|[1-9]\\d{0,13})(?:\\.\\d{1,4})?$`,
        },
        { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1e14 },
      ],
      examples: ['12.34'],
    },
    // No `default`: generators of clients would make the member one that must be sent.
    status: { $ref: '#/components/schemas/TransactionStatus', description: '`PENDING` where it is absent.' },
  },
};
