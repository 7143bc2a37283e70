import { type Money, type MoneyProblem, readMoney } from '../../payments/values/money.js';
import { type JsonBody, membersOf } from '../requests/json-body.js';

/** What the body asks to be paid, or the problem with its content (decisions P4). Unknown members are ignored. */
export function readPaymentRequest(body: JsonBody): Money | MoneyProblem {
  const members = membersOf(body);
  if ('problem' in members) return members;
  const amount = members.get('amount');
  if (amount === undefined) return { problem: '\'amount\' is missing. Send it as a string such as "100.50".' };
  if (!('text' in amount)) return { problem: "'amount' must be a string holding a decimal number." };
  const currency = members.get('currency');
  if (currency === undefined) return { problem: '\'currency\' is missing. Send an ISO 4217 code such as "USD".' };
  if (currency.type !== 'string') return { problem: "'currency' must be a string holding an ISO 4217 code." };
  return readMoney(amount.text, currency.text);
}
