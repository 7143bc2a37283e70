import { publicErrors } from '../http/errors/public-errors.js';
import {
  cursorFor,
  EXPORT_PARAMETERS,
  keyIn,
  LIST_PARAMETERS,
  readDay,
  readSelection,
  readVerdict,
  refuseUnknownParameters,
} from '../http/payments/record-request.js';
import { readPaymentRequest } from '../http/payments/request.js';
import { quoted } from '../http/requests/entity-tags.js';
import { evaluateRead } from '../http/requests/preconditions.js';
import { ExportTotals } from '../payments/history/export-totals.js';
import { paymentJson, paymentTag } from '../payments/history/payment-representation.js';
import type { ClaimedPayment, Prefix } from '../payments/ports/payment-history.js';
import { generateIdempotencyKey, readKeyHeader } from '../payments/values/idempotency-key.js';
import { fingerprintOf, type Money } from '../payments/values/money.js';
import { createTransactionIds } from '../payments/values/transaction-id.js';
import type { FakeAnswer, FakeCharge, FakeRequest } from './fake-exchange.js';
import { answerJson, answerNothing, requiredBodyOf } from './fake-requests.js';

/** What its processor does with the next payment. `unknown`: it charges, and its reply is lost; the next repeat finds the charge. */
export type FakeProcessing = { readonly decline: string } | 'unknown' | undefined;

type Row = { -readonly [Member in keyof ClaimedPayment]: ClaimedPayment[Member] };
const PROCESSOR = 'simulated';

/** Keys and payments in memory, by the rules of the service and with its readers and texts. */
export class FakePayments {
  readonly charges: FakeCharge[] = [];
  /** Issued, with the time of their end. */
  readonly #keys = new Map<string, number>();
  readonly #rows = new Map<string, Row & { expiresAt: number }>();
  readonly #newTransactionId: () => string;

  constructor(
    private readonly now: () => number,
    private readonly keyLifeMs: number,
    private readonly rejectsMismatch: boolean,
  ) {
    this.#newTransactionId = createTransactionIds(now);
  }

  /** As a key-value store that loses everything: unpaid keys are unknown from now on. */
  forgetKeys(): void {
    this.#keys.clear();
  }

  issueKey(): FakeAnswer {
    const key = generateIdempotencyKey(this.now());
    this.#keys.set(key, this.now() + this.keyLifeMs);
    return answerJson(`"${key}"`);
  }

  pay(request: FakeRequest, processing: FakeProcessing): FakeAnswer {
    const header = readKeyHeader(request.headers['idempotency-key']);
    if (header.state === 'missing') throw publicErrors.missingIdempotencyKey();
    const body = requiredBodyOf(request);
    if (header.state === 'invalid') throw publicErrors.invalidIdempotencyKey();
    const { key } = header;
    const money = readPaymentRequest(body);
    const row = this.#rows.get(key);
    if (row) {
      if (row.expiresAt <= this.now()) throw publicErrors.invalidIdempotencyKey();
      return this.#repeat(row, money);
    }
    if ((this.#keys.get(key) ?? 0) <= this.now()) throw publicErrors.invalidIdempotencyKey();
    if ('problem' in money) throw publicErrors.invalidBody(money.problem);
    return this.#first(key, money, processing);
  }

  status(request: FakeRequest): FakeAnswer {
    const header = readKeyHeader(request.headers['idempotency-key']);
    if (header.state === 'missing') throw publicErrors.missingIdempotencyKey();
    const row = header.state === 'present' ? this.#rows.get(header.key) : undefined;
    if (row?.state !== 'COMPLETED' || row.expiresAt <= this.now()) throw publicErrors.paymentNotFound();
    return answerJson(`"Transaction ID: ${row.transactionId}"`);
  }

  get(key: string, request: FakeRequest): FakeAnswer {
    const header = readKeyHeader(key);
    if (header.state !== 'present') throw publicErrors.recordNotFound();
    const row = this.#rows.get(header.key);
    if (!row && (this.#keys.get(header.key) ?? 0) <= this.now()) throw publicErrors.recordNotFound();
    const json = paymentJson(row ?? { state: 'PENDING', key: header.key });
    const headers = { etag: quoted(paymentTag(json)), 'cache-control': 'private, no-cache' };
    switch (evaluateRead(request.headers, paymentTag(json))) {
      case 'proceed':
        return answerJson(json, headers);
      case 'not modified':
        return answerNothing(304, headers);
      case 'failed':
        throw publicErrors.preconditionFailed('payment');
    }
  }

  list({ query }: FakeRequest): FakeAnswer {
    refuseUnknownParameters(query, LIST_PARAMETERS);
    const selection = readSelection(query);
    const { find, state, processor, claimedFrom = 0, claimedTo = Number.POSITIVE_INFINITY, before, limit } = selection;
    const found = [...this.#rows.values()]
      .filter((row) => find === undefined || beginsWith(row, find))
      .filter((row) => state === undefined || row.state === state)
      .filter((row) => processor === undefined || row.processor === processor)
      .filter(({ transactionId }) => before === undefined || transactionId < before)
      .filter(({ claimedAt }) => claimedAt >= claimedFrom && claimedAt < claimedTo)
      .sort((one, other) => (one.transactionId < other.transactionId ? 1 : -1));
    const page = found.slice(0, limit);
    const last = found.length > page.length ? page.at(-1) : undefined;
    const next = last && cursorFor(last.transactionId);
    const parameters = LIST_PARAMETERS.map((name) => [name, name === 'cursor' ? next : query[name]]).filter(
      ([, value]) => value,
    );
    const link = `</api/payments?${new URLSearchParams(parameters as [string, string][])}>; rel="next"`;
    return answerJson(`[${page.map(paymentJson).join(',')}]`, next === undefined ? {} : { link });
  }

  export({ query }: FakeRequest): FakeAnswer {
    refuseUnknownParameters(query, EXPORT_PARAMETERS);
    const { from, to } = readDay(query.day);
    const { processor } = query;
    const rows = [...this.#rows.values()]
      .filter(({ settledAt = -1 }) => settledAt >= from && settledAt < to)
      .filter((row) => !processor || row.processor === processor);
    const totals = new ExportTotals();
    totals.add(rows);
    const lines = [...rows.map(paymentJson), totals.json()];
    return answerJson(lines.map((line) => `${line}\n`).join(''), {
      'content-type': 'application/x-ndjson; charset=utf-8',
    });
  }

  /** Without the time that a real service waits for its processor to know better. */
  resolve(key: string, request: FakeRequest): FakeAnswer {
    const { state, reason } = readVerdict(requiredBodyOf(request));
    const row = this.#rows.get(keyIn({ key }));
    if (!row) throw publicErrors.paymentNotFound();
    if (row.state === 'PROCESSING') {
      this.#settle(row, state === 'DECLINED' ? reason : undefined);
      Object.assign(row, { resolution: reason });
    } else if (row.state !== state || row.resolution !== reason) throw publicErrors.paymentFinal(row.state);
    const json = paymentJson(row);
    return answerJson(json, { etag: quoted(paymentTag(json)), 'cache-control': 'private, no-cache' });
  }

  #first(key: string, money: Money, processing: FakeProcessing): FakeAnswer {
    const now = this.now();
    const transactionId = this.#newTransactionId();
    const row: Row & { expiresAt: number } = {
      key,
      client: undefined,
      transactionId,
      ...money,
      state: 'PROCESSING',
      processor: PROCESSOR,
      executions: 1,
      reference: undefined,
      attempt: undefined,
      reason: undefined,
      resolution: undefined,
      claimedAt: now,
      settledAt: undefined,
      expiresAt: Number.POSITIVE_INFINITY,
    };
    this.#rows.set(key, row);
    if (processing === undefined || processing === 'unknown') this.charges.push({ key, transactionId, ...money });
    if (processing === 'unknown') throw publicErrors.paymentOutcomeUnknown();
    this.#settle(row, processing?.decline);
    if (processing) throw publicErrors.paymentDeclined(processing.decline);
    return answerJson(`"Payment processed successfully with Transaction ID: ${transactionId}"`);
  }

  #repeat(row: Row & { expiresAt: number }, money: ReturnType<typeof readPaymentRequest>): FakeAnswer {
    if (row.state === 'PROCESSING') {
      row.executions += 1;
      this.#settle(row);
    }
    const asked = 'problem' in money ? money.ended : money;
    const isSame = asked !== undefined && fingerprintOf(asked) === fingerprintOf(row);
    if (this.rejectsMismatch && !isSame) throw publicErrors.paymentMismatch();
    const headers = { 'idempotent-replayed': 'true' };
    if (row.state === 'COMPLETED') return answerJson(`"Transaction ID: ${row.transactionId}"`, headers);
    const declined = publicErrors.paymentDeclined(row.reason ?? '');
    const body = JSON.stringify({ status: 402, error: 'Payment Required', message: declined.message });
    return answerJson(body, headers, 402);
  }

  #settle(row: Row & { expiresAt: number }, reason?: string): void {
    row.state = reason === undefined ? 'COMPLETED' : 'DECLINED';
    row.reason = reason;
    row.settledAt = this.now();
    row.expiresAt = this.now() + this.keyLifeMs;
  }
}

function beginsWith({ key, transactionId }: Row, find: Prefix): boolean {
  return 'keyDigits' in find
    ? key.replaceAll('-', '').startsWith(find.keyDigits)
    : transactionId.startsWith(find.transactionId);
}
