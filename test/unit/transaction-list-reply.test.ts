import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sendTransactionList } from '#idempay/http/transaction-list-reply.js';
import { transactionJson } from '#idempay/transactions/representation.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { TransactionPages } from '#idempay/transactions/transactions.js';

const PAGE = 500;
const HEADERS = { etag: '"the-tag"', 'cache-control': 'private, no-cache' };
const PATH = '/list';

/** Rows in memory, as a snapshot gives them, that notes what is asked of it. */
class RowsInMemory implements TransactionPages {
  pagesRead = 0;
  open = true;

  constructor(
    readonly rows: readonly Transaction[],
    private readonly fails = false,
  ) {}

  async next() {
    if (!this.open) throw new Error('a page was read from a snapshot that is closed');
    if (this.fails) throw new Error('the snapshot cannot be read');
    const rows = this.rows.slice(this.pagesRead * PAGE, (this.pagesRead + 1) * PAGE);
    this.pagesRead += 1;
    const last = rows.length < PAGE;
    if (last) this.close();
    return { rows, last };
  }

  isWanted() {
    return false;
  }

  close() {
    this.open = false;
  }
}

/**
 * Bug: HEAD on a long list read the whole list, held its snapshot meanwhile, and threw all rows away; and a list that
 * could not be read gave its error under the list's tag. Cause: the stream of pages was made for every method, and the
 * headers were set before the first page was there. Fix: HEAD ends after the first page, and headers follow it.
 */
describe('the reply with a list', () => {
  let pages: RowsInMemory;
  let server: FastifyInstance;

  beforeEach(() => {
    server = fastify();
    server.get(PATH, (_request: FastifyRequest, reply: FastifyReply) => {
      sendTransactionList(reply, HEADERS, pages).catch((fault: unknown) => reply.send(fault));
    });
  });
  afterEach(() => server.close());

  /** Asks for a list of so many rows. */
  async function ask(count: number, method: 'GET' | 'HEAD' = 'GET', fails = false) {
    pages = new RowsInMemory(rowsOf(count), fails);
    return server.inject({ method, url: PATH });
  }

  test.each([0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 7])(
    'is whole and in order for GET with %i rows, and closes the snapshot',
    async (count) => {
      const answer = await ask(count);
      expect(answer.statusCode).toBe(200);
      expect(answer.headers).toMatchObject(HEADERS);
      expect(answer.body).toBe(`[${pages.rows.map(transactionJson).join(',')}]`);
      expect(pages).toMatchObject({ open: false, pagesRead: Math.floor(count / PAGE) + 1 });
    },
  );

  test.each([0, PAGE, 3 * PAGE, 20 * PAGE])(
    'to HEAD reads one page of %i rows, and closes the snapshot',
    async (count) => {
      const answer = await ask(count, 'HEAD');
      expect(answer).toMatchObject({ statusCode: 200, body: '' });
      expect(answer.headers).toMatchObject({ ...HEADERS, 'content-type': 'application/json; charset=utf-8' });
      expect(pages).toMatchObject({ open: false, pagesRead: 1 });
    },
  );

  test.each([1, 3 * PAGE])('to HEAD of %i rows says no length that GET would not have', async (count) => {
    const { headers, body } = await ask(count);
    const head = await ask(count, 'HEAD');
    expect(head.headers['content-length']).toBe(headers['content-length']);
    expect([undefined, String(Buffer.byteLength(body))]).toContain(headers['content-length']);
  });

  test.each(['GET', 'HEAD'] as const)(
    'of rows that cannot be read is an error without the tag (%s)',
    async (method) => {
      const answer = await ask(1, method, true);
      expect(answer.statusCode).toBe(500);
      expect(answer.headers).not.toHaveProperty('etag');
      expect(pages.open).toBe(false);
    },
  );
});

function rowsOf(count: number): Transaction[] {
  return Array.from({ length: count }, (_, index) => ({
    id: 100_000_000_000_001 + index,
    fromAccount: 'A',
    toAccount: 'B',
    amount: '100.5',
    status: 'PENDING',
    version: 1,
    createdAt: 1_700_000_000_000 + index,
  }));
}
