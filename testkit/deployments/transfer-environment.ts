import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { type Answer, ask, generateKey, sendJson, transactionIdOf } from '../client/http-client.js';
import { keyed, listTransactions, postBatch, postTransaction, type Transaction } from '../client/transactions.js';
import { runCommand, startCommand } from '../processes/command.js';
import type { ProcessorInProcess } from '../processes/reference-processor.js';
import { until } from '../time/until.js';
import { manageStores } from './deployments.js';
import { type DistributedStores, openTestStores } from './distributed-stores.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PENDING = { ...MONEY, returnUrl: 'https://shop.example/back' };
const LINE = { amount: '12.50', currency: 'USD' };
const FINISHED_DEADLINE_MS = 30_000;

/** What clients of a deployment know, before and after it moves. */
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
const refundOrder = (url: string, reference: string) =>
  sendJson(`${url}/api/refund?reference=${reference}&refund=line-2`, 'POST', LINE);
const create = (url: string) => postTransaction(url, undefined, keyed('create-1'));
const keyOf = ({ headers }: Answer) => String(headers['idempotency-key']);

export function transferSettings(processor: ProcessorInProcess): Record<string, string> {
  return { PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '1000', LOCK_TTL_SECONDS: '2' };
}

/** A folder with orders in every state, a refund, keys of both kinds, and a list with more transactions than one batch of a transfer. */
export async function givenFolder(
  processor: ProcessorInProcess,
  rows = 0,
): Promise<{ folder: string; known: Known; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-transfer-'));
  const stores = manageStores({ DATA_DIR: folder, ...transferSettings(processor) }, async () => {});
  const service = await stores.serve();
  const { url } = service;
  const known = await knownAfterUse(url, processor, rows);
  await stores.close();
  return { folder, known, remove: () => rm(folder, { recursive: true, force: true }) };
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
  await processor.behave({ lostReplyRate: 0 });
  const unpaidKey = await generateKey(url);
  const created = await create(url);
  expect(created.status, created.text).toBe(201);
  for (let left = rows; left > 0; left -= 1_000) {
    const batch = Array.from({ length: Math.min(1_000, left) }, () => ({ fromAccount: 'C', toAccount: 'D', amount: 1 }));
    expect((await postBatch(url, batch)).status).toBe(201);
  }
  const other = await postTransaction(url);
  expect((await ask(`${url}/api/transactions/${other.json<Transaction>().transactionId}`, { method: 'DELETE' })).status).toBe(204);
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
  expect(await processor.refundsOf(paid.key)).toHaveLength(1);
}

async function untilPaid(url: string, reference: string): Promise<void> {
  const body = reference === 'order-17' ? PENDING : MONEY;
  await until(`${reference} to be paid`, FINISHED_DEADLINE_MS, async () => {
    return (await payOrder(url, reference, body)).status === 200;
  });
}

/** A copy of the folder with stores of its own to move to, until the end of the test. */
export async function openTransfer(folder: string, processor: ProcessorInProcess) {
  const copy = await mkdtemp(join(tmpdir(), 'idempay-transfer-'));
  await cp(folder, copy, { recursive: true });
  onTestFinished(() => rm(copy, { recursive: true, force: true }));
  const stores = await openTestStores();
  return moveBetween(copy, stores, processor);
}

export function moveBetween(folder: string, stores: DistributedStores, processor: ProcessorInProcess) {
  const settings = transferSettings(processor);
  const source = manageStores({ DATA_DIR: folder, ...settings }, async () => {});
  onTestFinished(() => source.close());
  const ends = { DATA_DIR: folder, ...stores.environment };
  return {
    folder,
    stores,
    /** A service on the folder. */
    serveSource: () => source.serve(),
    startSource: (more: Record<string, string> = {}) => source.start(more),
    /** A service on the target. */
    serveTarget: () => stores.serve(settings),
    startTarget: (more: Record<string, string> = {}) => stores.start({ ...settings, ...more }),
    /** The command, with more arguments and settings. */
    run: (more: readonly string[] = [], environment: Record<string, string> = {}) =>
      runCommand('', ['transfer', ...more], { ...ends, ...environment }),
    start: (more: readonly string[] = [], environment: Record<string, string> = {}) =>
      startCommand('', ['transfer', ...more], { ...ends, ...environment }),
    async state(): Promise<string | undefined> {
      const [row] = await stores.sql<{ state: string }>('SELECT state FROM idempay.transfer');
      return row?.state;
    },
  };
}
