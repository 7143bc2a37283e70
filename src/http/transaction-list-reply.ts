import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { transactionJson } from '../transactions/representation.js';
import type { Transaction } from '../transactions/transaction.js';
import type { TransactionPages } from '../transactions/transactions.js';

/** A client that takes nothing for this long is cut off: its list holds a snapshot, and the store cannot tidy up. */
const STALLED_CLIENT_MS = 30_000;

/** A short list in one piece; a long one page by page, so that memory stays flat however long it is. */
export async function sendTransactionList(reply: FastifyReply, pages: TransactionPages): Promise<void> {
  reply.header('content-type', 'application/json; charset=utf-8');
  const first = await firstPage(pages);
  reply.send(first.last ? `[${joined(first.rows)}]` : streamOf(first.rows, pages));
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

  return new Readable({
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
      pages.close();
      done(error);
    },
  });
}

function joined(rows: readonly Transaction[]): string {
  return rows.map(transactionJson).join(',');
}
