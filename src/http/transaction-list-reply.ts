import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { transactionJson } from '../transactions/representation.js';
import type { Transaction } from '../transactions/transaction.js';
import type { TransactionPages } from '../transactions/transactions.js';

/** A client that takes nothing for this long is cut off: its list holds a snapshot, and the store cannot tidy up. */
const STALLED_CLIENT_MS = 30_000;

/** However slowly it is read: a client that takes a page now and then must not hold a snapshot for hours. */
const LONGEST_LIST_MS = 600_000;

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
    // The rest would be read only to be thrown away; an empty stream leaves the length unsaid.
    pages.close();
    reply.send(Readable.from([]));
  } else {
    reply.send(streamOf(first.rows, pages));
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

function streamOf(firstRows: readonly Transaction[], pages: TransactionPages): Readable {
  let opening: string | undefined = `[${joined(firstRows)}`;
  let stalled: NodeJS.Timeout | undefined;
  const longest = setTimeout(() => stream.destroy(), LONGEST_LIST_MS).unref();

  const stream = new Readable({
    read() {
      clearTimeout(stalled);
      if (opening !== undefined) {
        const text = opening;
        opening = undefined;
        this.push(text);
        return;
      }
      pages.next().then(
        ({ rows, last }) => {
          const text = rows.length > 0 ? `,${joined(rows)}` : '';
          stalled = setTimeout(() => this.destroy(), STALLED_CLIENT_MS).unref();
          // An empty string would end neither the list nor the wait for it.
          if (last) {
            this.push(`${text}]`);
            this.push(null);
          } else {
            this.push(text);
          }
        },
        (fault: Error) => this.destroy(fault),
      );
    },
    destroy(error, done) {
      clearTimeout(stalled);
      clearTimeout(longest);
      pages.close();
      done(error);
    },
  });
  return stream;
}

function joined(rows: readonly Transaction[]): string {
  return rows.map(transactionJson).join(',');
}
