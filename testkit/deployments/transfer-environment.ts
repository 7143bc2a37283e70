import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { type Answer, ask, generateKey, sendJson, transactionIdOf } from '../client/http-client.js';
import { keyed, listTransactions, postBatch, postTransaction, type Transaction } from '../client/transactions.js';
import { runCommand } from '../processes/command.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../processes/reference-processor.js';
import { until } from '../time/until.js';
import { manageStores } from './deployments.js';
import { type DistributedStores, openTestStores } from './distributed-stores.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PENDING = { ...MONEY, returnUrl: 'https://shop.example/back' };
const LINE = { amount: '12.50', currency: 'USD' };
const FINISHED_DEADLINE_MS = 30_000;

type Environment = Record<string, string>;

/** The results that clients of a deployment know, before and after it moves. */
export interface Known {
  readonly paid: Order;
  readonly pending: Order;
  /** The charge was made, and its reply was lost with the process. */
  readonly unclear: Order;
  /** Issued, and paid after the transfer only. */
  readonly unpaidKey: string;
  readonly created: Transaction;
  readonly list: { readonly tag: string; readonly text: string };
}

interface Order {
  readonly reference: string;
  readonly key: string;
  readonly transactionId: string | undefined;
}

/** Calls of clients whose answers must be the same at both ends of a transfer. */
const payOrder = (url: string, reference: string, body: object = MONEY) =>
  sendJson(`${url}/api/payment?reference=${reference}`, 'POST', body);
const refundOrder = (url: string, reference: string, name = 'line-2') =>
  sendJson(`${url}/api/refund?reference=${reference}&refund=${name}`, 'POST', LINE);
const create = (url: string) => postTransaction(url, undefined, keyed('create-1'));
const keyOf = ({ headers }: Answer) => String(headers['idempotency-key']);

export type Move = Awaited<ReturnType<typeof openMove>>;
export type UsedMove = Move & { readonly known: Known };

/**
 * A folder on which a service has run, and the stores that its deployment may move to, until the end of the test. The processor charges a
 * repeated reference again, so that nothing that is sent twice goes unnoticed.
 */
export async function openMove(given?: DistributedStores) {
  const processor = await serveReferenceProcessor({ behaviour: { deduplicate: false } });
  onTestFinished(() => processor.close());
  const stores = given ?? (await openTestStores());
  const move = moveBetween(await newFolder(), stores, processor);
  await (await move.serveSource()).stop();
  return move;
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-transfer-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The same with clients. `rows`: further transactions in the list. */
export async function openUsedMove(rows = 0, given?: DistributedStores): Promise<UsedMove> {
  const move = await openMove(given);
  const source = await move.serveSource();
  const known = await knownAfterUse(source.url, move.processor, rows);
  await source.stop();
  return { ...move, known };
}

async function knownAfterUse(url: string, processor: ProcessorInProcess, rows: number): Promise<Known> {
  const paid = await payOrder(url, 'order-16');
  expect(paid.status, paid.text).toBe(200);
  expect((await refundOrder(url, 'order-16')).status).toBe(200);
  await processor.behave({ pendingRate: 1 });
  const pending = await sendJson(`${url}/api/payment?reference=order-17`, 'POST', PENDING, { Prefer: 'respond-async' });
  expect(pending.status, pending.text).toBe(202);
  await processor.behave({ pendingRate: 0, lostReplyRate: 1 });
  const unclear = await payOrder(url, 'order-18');
  expect(unclear.status, unclear.text).toBe(504);
  expect((await refundOrder(url, 'order-16', 'line-3')).status).toBe(504);
  await processor.behave({ lostReplyRate: 0 });
  const unpaidKey = await generateKey(url);
  const created = await create(url);
  expect(created.status, created.text).toBe(201);
  for (let left = rows; left > 0; left -= 1_000) {
    const batch = Array.from({ length: Math.min(1_000, left) }, () => ({
      fromAccount: 'C',
      toAccount: 'D',
      amount: 1,
    }));
    expect((await postBatch(url, batch)).status).toBe(201);
  }
  const other = await postTransaction(url);
  expect(
    (await ask(`${url}/api/transactions/${other.json<Transaction>().transactionId}`, { method: 'DELETE' })).status,
  ).toBe(204);
  return {
    paid: { reference: 'order-16', key: keyOf(paid), transactionId: transactionIdOf(paid) },
    pending: { reference: 'order-17', key: keyOf(pending), transactionId: undefined },
    unclear: { reference: 'order-18', key: keyOf(unclear), transactionId: undefined },
    unpaidKey,
    created: created.json<Transaction>(),
    list: await listOf(url),
  };
}

async function listOf(url: string): Promise<Known['list']> {
  const list = await listTransactions(url);
  return { tag: String(list.headers.etag), text: list.text };
}

/** Everything that clients know is answered as before, each order is charged once, and what was under way goes on. */
export async function expectKnown(
  url: string,
  { paid, pending, unclear, unpaidKey, created, list }: Known,
  processor: ProcessorInProcess,
): Promise<void> {
  expect(await listOf(url)).toEqual(list);
  const repeated = await payOrder(url, paid.reference);
  expect([repeated.status, transactionIdOf(repeated)]).toEqual([200, paid.transactionId]);
  expect((await refundOrder(url, paid.reference)).status).toBe(200);
  const repeatedCreate = await create(url);
  expect(repeatedCreate.json()).toEqual(created);
  expect(await listOf(url)).toEqual(list);

  await ask(`${processor.url}/pending/${pending.key}/confirm`, { method: 'POST' });
  await untilPaid(url, pending.reference);
  await untilPaid(url, unclear.reference);
  const byKey = await sendJson(`${url}/api/payment`, 'POST', MONEY, keyed(unpaidKey));
  expect(byKey.status, byKey.text).toBe(200);
  for (const key of [paid.key, pending.key, unclear.key, unpaidKey]) {
    expect(await processor.chargesOf(key)).toHaveLength(1);
  }
  await until('the refund', FINISHED_DEADLINE_MS, async () => {
    return (await refundOrder(url, paid.reference, 'line-3')).status === 200;
  });
  expect(await processor.refundsOf(paid.key)).toHaveLength(2);
}

async function untilPaid(url: string, reference: string): Promise<void> {
  const body = reference === 'order-17' ? PENDING : MONEY;
  await until(`${reference} to be paid`, FINISHED_DEADLINE_MS, async () => {
    return (await payOrder(url, reference, body)).status === 200;
  });
}

function moveBetween(folder: string, stores: DistributedStores, processor: ProcessorInProcess) {
  const settings = { PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '1000', LOCK_TTL_SECONDS: '2' };
  const source = manageStores({ DATA_DIR: folder, ...settings }, async () => {});
  onTestFinished(() => source.close());
  const ends = { DATA_DIR: folder, ...stores.environment };
  return {
    folder,
    stores,
    processor,
    /** A service on the folder. */
    serveSource: () => source.serve(),
    startSource: () => source.start(),
    /** A service on the target. */
    serveTarget: () => stores.serve(settings),
    startTarget: (more: Environment = {}) => stores.start({ ...settings, ...more }),
    /** The command, with more arguments and settings. */
    run: (more: readonly string[] = [], environment: Environment = {}) =>
      runCommand('', ['transfer', ...more], { ...ends, ...environment }),
    /** Another command on the folder. */
    runOnFolder: (...parameters: string[]) => runCommand('', parameters, { DATA_DIR: folder }),
    async state(): Promise<string | undefined> {
      const [row] = await stores.sql<{ state: string }>('SELECT state FROM idempay.transfer');
      return row?.state;
    },
    /** The same folder, as a copy of it is. */
    async copied(other: DistributedStores = stores) {
      const copy = await newFolder();
      await cp(folder, copy, { recursive: true });
      return moveBetween(copy, other, processor);
    },
  };
}
