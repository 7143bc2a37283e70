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
import type { ClaimedPayment, PaymentRecord, Prefix } from '../payments/ports/payment-history.js';
import { generateIdempotencyKey, readKeyHeader } from '../payments/values/idempotency-key.js';
import { fingerprintOf, type Money } from '../payments/values/money.js';
import { isComputed, type Reference } from '../payments/values/reference.js';
import { createTransactionIds } from '../payments/values/transaction-id.js';
import type { FakeAnswer, FakeCharge, FakeRequest } from './fake-exchange.js';
import { answerAbout, computeKey, namedPayment } from './fake-names.js';
import { answerError, answerJson, answerNothing, requiredBodyOf } from './fake-requests.js';

/** What its processor does with the next payment. `unknown`: it charges, and its reply is lost; the next repeat finds the charge. */
export type FakeProcessing = { readonly decline: string } | 'unknown' | undefined;

/** `id`: the transaction id, which a cancelled one does not show. */
type Kept = { readonly id: string; expiresAt: number };
type Row = { -readonly [Member in keyof ClaimedPayment]: ClaimedPayment[Member] } & Kept;
type AnyRow = Row | (Extract<PaymentRecord, { state: 'CANCELLED' }> & Kept);
interface IssuedKey {
  readonly endsAt: number;
  readonly reference: Reference | undefined;
}
const PROCESSOR = 'simulated';
const UNDER_WAY_RETRY_SECONDS = 1;

/** Keys and payments in memory, by the rules of the service and with its readers and texts. */
export class FakePayments {
  readonly charges: FakeCharge[] = [];
  readonly #keys = new Map<string, IssuedKey>();
  readonly #rows = new Map<string, AnyRow>();
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

  issueKey(request: FakeRequest): FakeAnswer {
    if (request.query.reference === undefined && request.query.attempt === undefined) {
      return this.#issue(generateIdempotencyKey(this.now()), undefined);
    }
    const payment = namedPayment(request, 'client');
    return answerAbout(payment, () => {
      const { key, reference } = payment as { key: string; reference: Reference };
      const row = this.#rows.get(key);
      if (row?.state === 'CANCELLED') throw publicErrors.paymentCancelled();
      if (!row) this.#requireTurn(reference);
      return this.#issue(key, reference);
    });
  }

  #issue(key: string, reference: Reference | undefined): FakeAnswer {
    this.#keys.set(key, { endsAt: this.now() + this.keyLifeMs, reference });
    return answerJson(`"${key}"`);
  }

  pay(request: FakeRequest, processing: FakeProcessing): FakeAnswer {
    const payment = namedPayment(request, 'client');
    return answerAbout(payment, () => {
      const body = requiredBodyOf(request);
      if (!payment) throw publicErrors.invalidIdempotencyKey();
      const { key } = payment;
      const money = readPaymentRequest(body);
      const row = this.#rows.get(key);
      if (row) {
        if (row.expiresAt <= this.now()) throw publicErrors.invalidIdempotencyKey();
        return this.#repeat(row, money);
      }
      const reference = payment.reference ?? this.#issued(key).reference;
      if ('problem' in money) throw publicErrors.invalidBody(money.problem);
      if (reference) this.#requireTurn(reference);
      return this.#first(key, reference, money, processing);
    });
  }

  status(request: FakeRequest): FakeAnswer {
    const payment = namedPayment(request, 'question');
    const newest = request.query.attempt === undefined ? this.#newestOf(request.query.reference) : undefined;
    const asked = payment && newest ? { ...payment, key: newest.key } : payment;
    return answerAbout(asked, () => {
      const row = asked && this.#rows.get(asked.key);
      if (row?.state !== 'COMPLETED' || row.expiresAt <= this.now()) throw publicErrors.paymentNotFound();
      return answerJson(`"Transaction ID: ${row.transactionId}"`);
    });
  }

  cancel(request: FakeRequest): FakeAnswer {
    const payment = namedPayment(request, 'operator');
    return answerAbout(payment, () => {
      if (!payment) throw publicErrors.invalidIdempotencyKey();
      const { key } = payment;
      const row = this.#rows.get(key);
      if (row) this.#requireCancelled(row, payment.reference?.attempt);
      else this.#close(key, payment.reference ?? this.#issued(key).reference);
      return answerJson('"Payment cancelled."');
    });
  }

  #requireCancelled(row: AnyRow, attempt: number | undefined): void {
    if (row.expiresAt <= this.now()) throw publicErrors.invalidIdempotencyKey();
    switch (row.state) {
      case 'COMPLETED':
        throw publicErrors.cancelledTooLate(row.transactionId);
      case 'DECLINED':
        throw publicErrors.cancelledAfterDecline(attempt);
      case 'PROCESSING':
        throw publicErrors.paymentInProgress(UNDER_WAY_RETRY_SECONDS);
    }
  }

  #close(key: string, reference: Reference | undefined): void {
    if (reference) this.#requireTurn(reference);
    const now = this.now();
    this.#rows.set(key, {
      ...this.#newRow(key, reference),
      state: 'CANCELLED',
      executions: 0,
      settledAt: now,
      expiresAt: reference ? Number.POSITIVE_INFINITY : now + this.keyLifeMs,
    });
    this.#keys.delete(key);
  }

  #issued(key: string): IssuedKey {
    const issued = this.#keys.get(key);
    if (!issued || issued.endsAt <= this.now()) throw publicErrors.invalidIdempotencyKey();
    return issued;
  }

  /** Without a retention no decline is too long ago. */
  #requireTurn({ attempt, ...rest }: Reference): void {
    if (attempt === 1) return;
    switch (this.#rows.get(computeKey({ ...rest, attempt: attempt - 1 }))?.state) {
      case undefined:
        throw publicErrors.attemptOutOfTurn(attempt, 'absent');
      case 'COMPLETED':
        throw publicErrors.attemptOutOfTurn(attempt, 'completed');
      case 'CANCELLED':
        throw publicErrors.attemptOutOfTurn(attempt, 'cancelled');
      case 'PROCESSING':
        throw publicErrors.attemptBeforeUnderWay(attempt, UNDER_WAY_RETRY_SECONDS);
    }
  }

  #newestOf(reference: string | undefined): AnyRow | undefined {
    const attempts = [...this.#rows.values()].filter((row) => reference !== undefined && row.reference === reference);
    return attempts.sort((one, other) => (other.attempt ?? 0) - (one.attempt ?? 0))[0];
  }

  get(key: string, request: FakeRequest): FakeAnswer {
    const header = readKeyHeader(key);
    if (header.state !== 'present') throw publicErrors.recordNotFound();
    const row = this.#rows.get(header.key);
    const issued = this.#keys.get(header.key);
    if (!row && (issued?.endsAt ?? 0) <= this.now()) throw publicErrors.recordNotFound();
    const { text: reference, attempt } = issued?.reference ?? {};
    const json = paymentJson(row ?? { state: 'PENDING', key: header.key, reference, attempt }, undefined);
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
    const {
      reference,
      find,
      state,
      processor,
      claimedFrom = 0,
      claimedTo = Number.POSITIVE_INFINITY,
      before,
      limit,
    } = selection;
    const found = [...this.#rows.values()]
      .filter((row) => reference === undefined || row.reference === reference)
      .filter((row) => find === undefined || beginsWith(row, find))
      .filter((row) => state === undefined || row.state === state)
      .filter((row) => processor === undefined || row.processor === processor)
      .filter(({ id }) => before === undefined || id < before)
      .filter(({ claimedAt }) => claimedAt >= claimedFrom && claimedAt < claimedTo)
      .sort((one, other) => (one.id < other.id ? 1 : -1));
    const page = found.slice(0, limit);
    const last = found.length > page.length ? page.at(-1) : undefined;
    const next = last && cursorFor(last.id);
    const parameters = LIST_PARAMETERS.map((name) => [name, name === 'cursor' ? next : query[name]]).filter(
      ([, value]) => value,
    );
    const link = `</api/payments?${new URLSearchParams(parameters as [string, string][])}>; rel="next"`;
    return answerJson(
      `[${page.map((row) => paymentJson(row, undefined)).join(',')}]`,
      next === undefined ? {} : { link },
    );
  }

  export({ query }: FakeRequest): FakeAnswer {
    refuseUnknownParameters(query, EXPORT_PARAMETERS);
    const { from, to } = readDay(query.day);
    const { processor } = query;
    const rows = [...this.#rows.values()]
      .filter(({ state }) => state !== 'CANCELLED')
      .filter(({ settledAt = -1 }) => settledAt >= from && settledAt < to)
      .filter((row) => !processor || row.processor === processor);
    const totals = new ExportTotals();
    totals.add(rows);
    const lines = [...rows.map((row) => paymentJson(row, undefined)), totals.json()];
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
    const json = paymentJson(row, undefined);
    return answerJson(json, { etag: quoted(paymentTag(json)), 'cache-control': 'private, no-cache' });
  }

  #newRow(key: string, reference: Reference | undefined) {
    return {
      key,
      id: this.#newTransactionId(),
      client: undefined,
      reference: reference?.text,
      attempt: reference?.attempt,
      reason: undefined,
      resolution: undefined,
      claimedAt: this.now(),
      expiresAt: Number.POSITIVE_INFINITY,
    };
  }

  #first(key: string, reference: Reference | undefined, money: Money, processing: FakeProcessing): FakeAnswer {
    const kept = this.#newRow(key, reference);
    const transactionId = kept.id;
    const row: Row = {
      ...kept,
      ...money,
      transactionId,
      state: 'PROCESSING',
      processor: PROCESSOR,
      executions: 1,
      settledAt: undefined,
    };
    this.#rows.set(key, row);
    if (processing === undefined || processing === 'unknown') this.charges.push({ key, transactionId, ...money });
    if (processing === 'unknown') throw publicErrors.paymentOutcomeUnknown();
    this.#settle(row, processing?.decline);
    if (processing) throw declined(row);
    return answerJson(`"Payment processed successfully with Transaction ID: ${transactionId}"`);
  }

  #repeat(row: AnyRow, money: ReturnType<typeof readPaymentRequest>): FakeAnswer {
    if (row.state === 'CANCELLED') throw publicErrors.paymentCancelled();
    if (row.state === 'PROCESSING') {
      row.executions += 1;
      this.#settle(row);
    }
    const asked = 'problem' in money ? money.ended : money;
    const isSame = asked !== undefined && fingerprintOf(asked) === fingerprintOf(row);
    if (!isSame && isComputed(row.key)) throw publicErrors.referenceMismatch();
    if (!isSame && this.rejectsMismatch) throw publicErrors.paymentMismatch();
    const headers = { 'idempotent-replayed': 'true' };
    if (row.state === 'COMPLETED') return answerJson(`"Transaction ID: ${row.transactionId}"`, headers);
    const newest = this.#newestOf(row.reference);
    if (row.attempt !== undefined && newest?.attempt !== undefined && newest.attempt > row.attempt) {
      throw publicErrors.attemptSuperseded(row.attempt, { ...newest, attempt: newest.attempt });
    }
    const answer = answerError(declined(row));
    return { ...answer, headers: { ...answer.headers, ...headers } };
  }

  #settle(row: Row, reason?: string): void {
    row.state = reason === undefined ? 'COMPLETED' : 'DECLINED';
    row.reason = reason;
    row.settledAt = this.now();
    // A payment with a reference never expires.
    if (row.reference === undefined) row.expiresAt = this.now() + this.keyLifeMs;
  }
}

function declined({ reason = '', attempt }: Row) {
  return attempt === undefined ? publicErrors.paymentDeclined(reason) : publicErrors.attemptDeclined(reason, attempt);
}

function beginsWith({ key, id }: AnyRow, find: Prefix): boolean {
  return 'keyDigits' in find ? key.replaceAll('-', '').startsWith(find.keyDigits) : id.startsWith(find.transactionId);
}
