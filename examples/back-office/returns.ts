import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { emptyIfAbsent } from '../shop/orders.ts';

const { RETURNS = './data/returns.ndjson' } = process.env;

/** A line of an order that came back. It is written before any money is asked for, so that a crash leaves something to go on with. */
export interface Return {
  readonly order: string;
  /** Its number in the order, from 1. */
  readonly line: number;
  /** Refused: nothing was given back, and the shopkeeper may try again. */
  readonly state: 'under way' | 'given back' | 'declined' | 'refused';
  /** For the shopkeeper. */
  readonly text: string;
}

/** The file stands for a database. Only the back office writes it, so no server of the shop overwrites what the shopkeeper decided. */
export async function saveReturn(returned: Return): Promise<void> {
  await mkdir(dirname(RETURNS), { recursive: true });
  await appendFile(RETURNS, `${JSON.stringify(returned)}\n`);
}

/** By the number of the line. */
export async function returnsOf(order: string): Promise<ReadonlyMap<number, Return>> {
  const ofOrder = (await allReturns()).filter((each) => each.order === order);
  return new Map(ofOrder.map((each) => [each.line, each]));
}

export const returnsUnderWay = async () => (await allReturns()).filter(({ state }) => state === 'under way');

/** The last line about a return counts. */
async function allReturns(): Promise<readonly Return[]> {
  const lines = (await readFile(RETURNS, 'utf8').catch(emptyIfAbsent)).trim().split('\n').filter(Boolean);
  const returns = lines.map((line): Return => JSON.parse(line));
  return [...new Map(returns.map((each) => [`${each.order} ${each.line}`, each])).values()];
}
