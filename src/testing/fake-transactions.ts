import { createHash } from 'node:crypto';
import { publicErrors } from '../http/errors/public-errors.js';
import { refuseUnknownParameters } from '../http/payments/record-request.js';
import { quoted } from '../http/requests/entity-tags.js';
import { evaluateRead, writeCondition } from '../http/requests/preconditions.js';
import { readCreationKey } from '../http/transactions/creation-key.js';
import { foundTransactionJson } from '../http/transactions/reply.js';
import {
  BATCH_ROWS,
  readNewStatus,
  readNewTransaction,
  readNewTransactions,
  readTransactionId,
} from '../http/transactions/request.js';
import { pageAfter, readSearch, SEARCH_PARAMETERS } from '../http/transactions/search-request.js';
import { type CreationEndpoint, fingerprintOf } from '../transactions/creation.js';
import { represent, transactionJson, transactionTag } from '../transactions/representation.js';
import {
  FINAL_STATUSES,
  FIRST_TRANSACTION_ID,
  type NewTransaction,
  type Transaction,
} from '../transactions/transaction.js';
import type { FakeAnswer, FakeRequest } from './fake-exchange.js';
import { answerJson, answerNothing, bodyOf, requiredBodyOf } from './fake-requests.js';

interface Creation {
  readonly fingerprint: string;
  readonly created: readonly Transaction[];
  readonly expiresAt: number;
}

const REVALIDATE = { 'cache-control': 'private, no-cache' };

/** Transactions in memory, by the rules of the service and with its readers, texts and tags. */
export class FakeTransactions {
  readonly #rows = new Map<number, Transaction>();
  readonly #creations = new Map<string, Creation>();
  #nextId = FIRST_TRANSACTION_ID;

  constructor(
    private readonly now: () => number,
    private readonly keyLifeMs: number,
  ) {}

  create(request: FakeRequest): FakeAnswer {
    const key = keyOf(request);
    const wanted = readNewTransaction(requiredBodyOf(request));
    const { created, headers } = this.#createOnce(request, 'one', key, [wanted]);
    const [transaction] = created as [Transaction];
    return answerOne(transaction, { ...headers, location: `/api/transactions/${transaction.id}` }, 201);
  }

  createBatch(request: FakeRequest): FakeAnswer {
    const key = keyOf(request);
    const wanted = readNewTransactions(requiredBodyOf(request, BATCH_ROWS));
    const { created, headers } = this.#createOnce(request, 'batch', key, wanted);
    return answerJson(`{"${BATCH_ROWS.name}":[${created.map(transactionJson).join(',')}]}`, headers, 201);
  }

  list({ query, headers }: FakeRequest): FakeAnswer {
    const found = this.#matching(query);
    const tag = listTag(found);
    const answerHeaders = { etag: quoted(tag) };
    switch (evaluateRead(headers, tag)) {
      case 'proceed':
        return answerJson(`[${found.map(transactionJson).join(',')}]`, answerHeaders);
      case 'not modified':
        return answerNothing(304, { ...answerHeaders, 'cache-control': 'no-store' });
      case 'failed':
        throw publicErrors.preconditionFailed('list');
    }
  }

  search({ query }: FakeRequest): FakeAnswer {
    refuseUnknownParameters(query, SEARCH_PARAMETERS);
    const { status, before = Number.POSITIVE_INFINITY, limit } = readSearch(query);
    const found = this.#matching(query)
      .filter((row) => row.id < before && (status === undefined || row.status === status))
      .reverse();
    const page = found.slice(0, limit);
    const next = found.length > page.length ? page.at(-1)?.id : undefined;
    const link: Record<string, string> = next === undefined ? {} : { link: `<${pageAfter(query, next)}>; rel="next"` };
    return answerJson(`[${page.map(foundTransactionJson).join(',')}]`, link);
  }

  get(idText: string, { headers }: FakeRequest): FakeAnswer {
    const transaction = this.#existing(idText);
    const { tag } = represent(transaction);
    switch (evaluateRead(headers, tag)) {
      case 'proceed':
        return answerOne(transaction);
      case 'not modified':
        return answerNothing(304, { etag: quoted(tag), ...REVALIDATE });
      case 'failed':
        throw publicErrors.preconditionFailed('transaction');
    }
  }

  changeStatus(idText: string, request: FakeRequest): FakeAnswer {
    readTransactionId(idText);
    const status = readNewStatus(bodyOf(request), request.query.newStatus);
    const transaction = this.#existing(idText);
    this.#requireCondition(transaction, request);
    if (transaction.status === status) return answerOne(transaction);
    if (FINAL_STATUSES.includes(transaction.status)) throw publicErrors.transactionFinal(transaction.status);
    const changed: Transaction = { ...transaction, status, version: transaction.version + 1 };
    this.#rows.set(changed.id, changed);
    return answerOne(changed);
  }

  remove(idText: string, request: FakeRequest): FakeAnswer {
    const transaction = this.#existing(idText);
    this.#requireCondition(transaction, request);
    this.#rows.delete(transaction.id);
    return answerNothing(204);
  }

  #createOnce(
    { headers }: FakeRequest,
    endpoint: CreationEndpoint,
    key: string | undefined,
    wanted: readonly NewTransaction[],
  ): { created: readonly Transaction[]; headers: Record<string, string> } {
    const name = `${endpoint} ${key}`;
    const fingerprint = fingerprintOf(wanted);
    const known = key === undefined ? undefined : this.#creations.get(name);
    if (known && known.expiresAt > this.now()) {
      if (known.fingerprint !== fingerprint) throw publicErrors.creationMismatch();
      return { created: known.created, headers: { 'idempotent-replayed': 'true' } };
    }
    if (writeCondition(headers)?.(listTag(this.#matching({}))) === false) throw publicErrors.preconditionFailed('list');
    const createdAt = this.now();
    const created = wanted.map((row) => {
      const transaction: Transaction = { ...row, id: this.#nextId, version: 1, createdAt };
      this.#nextId += 1;
      this.#rows.set(transaction.id, transaction);
      return transaction;
    });
    if (key !== undefined) this.#creations.set(name, { fingerprint, created, expiresAt: createdAt + this.keyLifeMs });
    return { created, headers: {} };
  }

  #matching({ from = '', to = '' }: { readonly from?: string; readonly to?: string }): Transaction[] {
    return [...this.#rows.values()].filter(
      ({ fromAccount, toAccount }) => (from === '' || from === fromAccount) && (to === '' || to === toAccount),
    );
  }

  #existing(idText: string): Transaction {
    const { text, id } = readTransactionId(idText);
    const transaction = this.#rows.get(id);
    if (!transaction) throw publicErrors.transactionNotFound(text);
    return transaction;
  }

  #requireCondition(transaction: Transaction, { headers }: FakeRequest): void {
    const isMet = writeCondition(headers)?.(transactionTag(transaction, transaction.status)) ?? true;
    if (!isMet) throw publicErrors.preconditionFailed('transaction');
  }
}

function answerOne(transaction: Transaction, headers: Record<string, string> = {}, status = 200): FakeAnswer {
  const { json, tag } = represent(transaction);
  return answerJson(json, { etag: quoted(tag), ...REVALIDATE, ...headers }, status);
}

/** Spec 4.3 list rule 2. */
function listTag(list: readonly Transaction[]): string {
  return createHash('md5')
    .update(`${list.map(({ id }) => id).join('')}${list.length}`)
    .digest('hex');
}

function keyOf({ headers }: FakeRequest): string | undefined {
  const header = readCreationKey(headers['idempotency-key']);
  if (header.state === 'invalid') throw publicErrors.invalidCreationKey();
  return header.state === 'present' ? header.key : undefined;
}
