import { Readable } from 'node:stream';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { ExportTotals } from '../../payments/history/export-totals.js';
import type { PaymentRecords, ShownPayment } from '../../payments/history/payment-records.js';
import { paymentJson, paymentTag } from '../../payments/history/payment-representation.js';
import type { ResolveAnswer, Verdict } from '../../payments/history/resolve.js';
import type { PaymentRecord } from '../../payments/ports/payment-history.js';
import { momentAbove } from '../../payments/values/transaction-id.js';
import type { TagCondition } from '../../transactions/transactions.js';
import { answerWith } from '../errors/errors.js';
import { publicErrors } from '../errors/public-errors.js';
import { visibleClient } from '../requests/access-check.js';
import { requiredBody } from '../requests/body-parser.js';
import { cutAtRevocation } from '../requests/cut-at-revocation.js';
import { quoted, REVALIDATE } from '../requests/entity-tags.js';
import { evaluateRead, sendNotModified, writeCondition } from '../requests/preconditions.js';
import { pageAfter, refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { SEARCHED_FROM_HEADER } from './headers.js';
import * as descriptions from './record-description.js';
import {
  cursorFor,
  EXPORT_PARAMETERS,
  keyIn,
  LIST_PARAMETERS,
  type ListParameter,
  readDays,
  readSelection,
  readVerdict,
} from './record-request.js';

const Text = Type.Optional(Type.String());
const ListQuery = Type.Object(
  Object.fromEntries(LIST_PARAMETERS.map((name) => [name, Text])) as Record<ListParameter, typeof Text>,
);
const ExportQuery = Type.Object({ day: Text, lastDay: Text, processor: Text });
const PaymentPath = Type.Object({ key: Type.String() });

/** The payments as clients and operators look at them, and the operator's resolution (docs/reference/processor.md). */
export function registerPaymentRecordRoutes(server: FastifyInstance, records: PaymentRecords): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/payments',
    {
      schema: { querystring: ListQuery },
      config: { scopes: ['payments:read', 'operations'], description: descriptions.listPayments },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, LIST_PARAMETERS);
      const client = visibleClient(request);
      const selection = { ...readSelection(request.query, client), reader: clientOf(request) };
      answerWith(reply, records.list(selection), ({ payments, next }) => {
        if (selection.content !== undefined) {
          const searchedFrom = next === undefined ? selection.claimedFrom : momentAbove(next);
          reply.header(SEARCHED_FROM_HEADER, new Date(searchedFrom ?? 0).toISOString());
        }
        if (next !== undefined) {
          reply.header('link', `<${pageAfter('/api/payments', request.query, cursorFor(next))}>; rel="next"`);
        }
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(`[${payments.map((payment) => paymentJson(payment, client)).join(',')}]`);
      });
    },
  );

  app.get(
    '/api/payments/export',
    {
      schema: { querystring: ExportQuery },
      config: { scopes: ['operations'], description: descriptions.exportPayments },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, EXPORT_PARAMETERS);
      const { name, from, to } = readDays(request.query.day, request.query.lastDay);
      const { processor } = request.query;
      const pages = records.settled(from, to, processor || undefined, clientOf(request))[Symbol.asyncIterator]();
      // The first page is read before anything is answered, so that a store that is down is still a 503.
      answerWith(reply, pages.next(), (first) => {
        cutAtRevocation(reply);
        reply
          .header('content-type', 'application/x-ndjson; charset=utf-8')
          .header('content-disposition', `attachment; filename="payments-${name}.ndjson"`)
          .header('cache-control', 'no-store')
          // For HEAD the framework would read the whole stream: all pages of the days, unused.
          .send(Readable.from(request.method === 'HEAD' ? [] : linesOf(first, pages)));
      });
    },
  );

  app.get(
    '/api/payments/:key',
    {
      schema: { params: PaymentPath },
      config: {
        operation: 'payment status',
        scopes: ['payments:read', 'operations'],
        description: descriptions.getPayment,
      },
    },
    (request, reply) => {
      const client = visibleClient(request);
      answerWith(reply, shownOrRefused(keyIn(request.params, publicErrors.recordNotFound), client), (payment) => {
        const json = paymentJson(payment, client);
        switch (evaluateRead(request.headers, paymentTag(json))) {
          case 'proceed':
            sendPayment(reply, json);
            return;
          case 'not modified':
            sendNotModified(withTag(reply, json));
            return;
          case 'failed':
            throw publicErrors.preconditionFailed('payment');
        }
      });
    },
  );

  app.post(
    '/api/payments/:key/resolution',
    {
      schema: { params: PaymentPath },
      config: { operation: 'resolve payment', scopes: ['operations'], description: descriptions.resolvePayment },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const verdict = readVerdict(requiredBody(request));
      const condition = writeCondition(request.headers);
      answerWith(reply, resolveIf(condition, keyIn(request.params), verdict), (answer) => {
        sendPayment(reply, operatorsJson(resolvedPayment(answer)));
      });
    },
  );

  async function shownOrRefused(key: string, client: string | undefined): Promise<ShownPayment> {
    const payment = await records.get(key, client);
    if (payment.state !== 'ABSENT') return payment;
    throw payment.endedUnpaid ? publicErrors.keyEndedUnpaid() : publicErrors.recordNotFound();
  }

  /** Checked just before (RFC 9110 13.2.1). The statement that resolves decides about later changes. */
  async function resolveIf(condition: TagCondition | undefined, key: string, verdict: Verdict): Promise<ResolveAnswer> {
    if (condition) {
      const payment = await records.get(key);
      if (payment.state === 'ABSENT' || payment.state === 'PENDING') return { state: 'not found' };
      if (!condition(paymentTag(operatorsJson(payment)))) throw publicErrors.preconditionFailed('payment');
    }
    return records.resolve(key, verdict);
  }
}

const operatorsJson = (payment: ShownPayment) => paymentJson(payment, undefined);

function sendPayment(reply: FastifyReply, json: string): void {
  withTag(reply, json).header('content-type', 'application/json; charset=utf-8').send(json);
}

function withTag(reply: FastifyReply, json: string): FastifyReply {
  return reply.header('etag', quoted(paymentTag(json))).header('cache-control', REVALIDATE);
}

function resolvedPayment(answer: ResolveAnswer): PaymentRecord {
  switch (answer.state) {
    case 'resolved':
      if (answer.payment) return answer.payment;
      throw publicErrors.paymentNotFound();
    case 'final':
      if (!answer.payment) throw publicErrors.paymentNotFound();
      throw publicErrors.paymentFinal(answer.payment.state);
    case 'in progress':
      throw publicErrors.paymentInProgress(answer.retryAfterSeconds);
    case 'too early':
      throw publicErrors.resolutionTooEarly(answer.retryAfterSeconds);
    case 'not found':
      throw publicErrors.paymentNotFound();
  }
}

/** The last line comes after all pages and never after a fault, which cuts the connection. */
async function* linesOf(
  first: IteratorResult<readonly PaymentRecord[]>,
  pages: AsyncIterator<readonly PaymentRecord[]>,
): AsyncGenerator<string> {
  const totals = new ExportTotals();
  for (let page = first; !page.done; page = await pages.next()) {
    totals.add(page.value);
    if (page.value.length > 0) yield page.value.map((payment) => `${operatorsJson(payment)}\n`).join('');
  }
  yield `${totals.json()}\n`;
}
