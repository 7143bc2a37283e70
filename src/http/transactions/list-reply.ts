import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { transactionJson } from '../../transactions/representation.js';
import type { Transaction } from '../../transactions/transaction.js';
import type { TransactionPages } from '../../transactions/transactions.js';
import { type Chunks, READ_AHEAD, streamReadAhead } from '../connections/read-ahead.js';
import { whenClientIsGone } from '../requests/client-gone.js';
import { cutAtRevocation } from '../requests/cut-at-revocation.js';

/** A short list in one piece; a long one page by page, so that memory stays flat however long it is. */
export async function sendTransactionList(
  reply: FastifyReply,
  headers: Readonly<Record<string, string>>,
  pages: TransactionPages,
): Promise<void> {
  const first = await firstPage(pages);
  reply.headers(headers).header('content-type', 'application/json; charset=utf-8');
  if (first.last) {
    reply.send(`[${joined(first.rows)}]`);
  } else if (reply.request.method === 'HEAD') {
    // HEAD needs no further rows; with an empty stream no Content-Length is sent.
    pages.close();
    reply.send(Readable.from([]));
  } else {
    const body = streamReadAhead(Buffer.from(`[${joined(first.rows)}`), chunksOf(pages), READ_AHEAD);
    cutAtRevocation(reply);
    reply.send(body);
    whenClientIsGone(reply, () => body.destroy());
  }
}

async function firstPage(pages: TransactionPages): ReturnType<TransactionPages['next']> {
  try {
    return await pages.next();
  } catch (fault) {
    pages.close();
    throw fault;
  }
}

function chunksOf(pages: TransactionPages): Chunks {
  return {
    async next() {
      const { rows, last } = await pages.next();
      const text = rows.length > 0 ? `,${joined(rows)}` : '';
      return { chunk: Buffer.from(last ? `${text}]` : text), last };
    },
    isWanted: () => pages.isWanted(),
    isOwed: () => pages.isOwed(),
    close: () => pages.close(),
  };
}

function joined(rows: readonly Transaction[]): string {
  return rows.map(transactionJson).join(',');
}
