import {
  type Content,
  type Metadata,
  MOST_DESCRIPTION,
  MOST_METADATA,
  MOST_METADATA_NAME,
  MOST_METADATA_VALUE,
  sourceProblem,
  textProblem,
} from '../../payments/values/content.js';
import { type Money, type MoneyProblem, type PaymentRequest, readMoney } from '../../payments/values/money.js';
import { type JsonBody, type JsonMember, membersOf } from '../requests/json-body.js';

type Members = ReadonlyMap<string, JsonMember>;

/** What the body asks to be paid, or the problem with its content (rules P4 and P19). Unknown members are ignored. */
export function readPaymentRequest(body: JsonBody): PaymentRequest {
  const members = membersOf(body);
  if ('problem' in members) return members;
  const money = moneyIn(members);
  if ('problem' in money) return money;
  const content = contentIn(members);
  if (content === undefined) return money;
  return 'problem' in content ? { ...content, money } : { ...money, content };
}

function moneyIn(members: Members): Money | MoneyProblem {
  const amount = members.get('amount');
  if (amount === undefined) return { problem: '\'amount\' is missing. Send it as a string such as "100.50".' };
  if (!('text' in amount)) return { problem: "'amount' must be a string holding a decimal number." };
  const currency = members.get('currency');
  if (currency === undefined) return { problem: '\'currency\' is missing. Send an ISO 4217 code such as "USD".' };
  if (currency.type !== 'string') return { problem: "'currency' must be a string holding an ISO 4217 code." };
  return readMoney(amount.text, currency.text);
}

/** Undefined where the body has none of its members, as most. */
function contentIn(members: Members): Content | { readonly problem: string } | undefined {
  const source = members.get('source');
  const description = members.get('description');
  const metadata = members.get('metadata');
  if (!source && !description && !metadata) return undefined;
  const problem =
    (source && problemOfText("'source'", source, sourceProblem)) ??
    (description && problemOfText("'description'", description, descriptionProblem)) ??
    (metadata && problemOfMetadata(metadata));
  if (problem !== undefined) return { problem };
  return { source: textOf(source), description: textOf(description), metadata: metadata && metadataIn(metadata) };
}

function problemOfText(what: string, member: JsonMember, judge: (text: string) => string | undefined) {
  return member.type === 'string' ? judge(member.text) : `${what} must be a string. Leave it out where there is none.`;
}

const descriptionProblem = (text: string) => textProblem("'description'", text, MOST_DESCRIPTION, 1);

function problemOfMetadata(metadata: JsonMember): string | undefined {
  if (metadata.type !== 'object') return "'metadata' must be an object of strings. Leave it out where there is none.";
  const { members, duplicate } = metadata.object;
  if (duplicate !== undefined) return "'metadata' has a name more than once.";
  if (members.size > MOST_METADATA) return `'metadata' must have at most ${MOST_METADATA} members.`;
  // Frameworks of processors refuse a whole request that has it, and the payment would stay unknown.
  if (members.has('__proto__')) return "'metadata' must not have the name '__proto__'.";
  for (const [name, value] of members) {
    if (value.type !== 'string') return "'metadata' values must be strings.";
    const problem =
      textProblem("'metadata' names", name, MOST_METADATA_NAME, 1) ??
      textProblem("'metadata' values", value.text, MOST_METADATA_VALUE);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** After `problemOfMetadata`. */
function metadataIn(metadata: JsonMember): Metadata {
  const members = metadata.type === 'object' ? [...metadata.object.members] : [];
  return Object.fromEntries(members.map(([name, value]) => [name, textOf(value) ?? '']));
}

function textOf(member: JsonMember | undefined): string | undefined {
  return member?.type === 'string' ? member.text : undefined;
}
