import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { ExportTotals } from '../../payments/history/export-totals.js';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import type { PaymentRecord, Selection } from '../../payments/ports/payment-history.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { always, NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { cutAtRevocation } from '../requests/cut-at-revocation.js';
import { type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { DAY, KIND, kindAsked, startOfDay } from './list-payments.js';
import { completed, operatorsJson } from './shown-payment.js';

const DAY_MS = 86_400_000;
/** An export has at most a year. */
const MOST_DAYS = 366;

/**
 * In the place of a page without a line: JSON may begin with it. The client learns that the export goes on, and an export whose client has
 * left ends.
 */
const NOTHING_YET = ' ';

const Query = querySchema('day', 'lastDay', 'processor', 'kind');
const PARAMETERS = Object.keys(Query.properties);

/** The payments that were settled on a day, or on several, for the accounts of an operator. */
export function exportPayments(
  server: FastifyInstance,
  { paymentRecords: records }: { readonly paymentRecords: PaymentRecords },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/payments/export',
    {
      schema: { querystring: Query },
      config: { scopes: ['operations', 'payments:read:all'], description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, PARAMETERS);
      const { name, from, to } = readDays(request.query.day, request.query.lastDay);
      const { processor } = request.query;
      const kind = kindAsked(request.query.kind);
      const only = { processor: processor || undefined, kind, reader: clientOf(request) };
      const pages = records.settled(from, to, only)[Symbol.asyncIterator]();
      // The first page is read before anything is answered, so that a store that is down is still a 503.
      answerWith(reply, pages.next(), (first) => {
        cutAtRevocation(reply);
        reply
          .header('content-type', 'application/x-ndjson; charset=utf-8')
          .header('content-disposition', `attachment; filename="payments-${name}.ndjson"`)
          .header('cache-control', 'no-store')
          // For HEAD the framework would read the whole stream: all pages of the days, unused.
          .send(Readable.from(request.method === 'HEAD' ? [] : linesOf(first, pages, kind)));
      });
    },
  );
}

/** The last line comes after all pages and never after a fault, which cuts the connection. */
async function* linesOf(
  first: IteratorResult<readonly PaymentRecord[]>,
  pages: AsyncIterator<readonly PaymentRecord[]>,
  kind: Selection['kind'],
): AsyncGenerator<string> {
  const totals = new ExportTotals(kind);
  for (let page = first; !page.done; page = await pages.next()) {
    totals.add(page.value);
    yield page.value.length > 0 ? page.value.map((payment) => `${operatorsJson(payment)}\n`).join('') : NOTHING_YET;
  }
  yield `${totals.json()}\n`;
}

/** The days of an export, UTC, as [from, to) in milliseconds since the epoch, and their name as a part of a file's name. */
export function readDays(
  day: string | undefined,
  lastDay: string | undefined,
): { name: string; from: number; to: number } {
  const from = day !== undefined && DAY.test(day) ? startOfDay(day) : undefined;
  if (day === undefined || from === undefined) {
    throw publicErrors.invalidRequest("'day' must be a day in UTC such as 2026-11-20.");
  }
  if (!lastDay) return { name: day, from, to: from + DAY_MS };
  const last = DAY.test(lastDay) ? startOfDay(lastDay) : undefined;
  if (last === undefined || last < from || last - from >= MOST_DAYS * DAY_MS) {
    throw publicErrors.invalidRequest(
      `'lastDay' must be a day in UTC such as 2026-11-30, not before 'day', and at most ${MOST_DAYS} days may be exported at once.`,
    );
  }
  return { name: last === from ? day : `${day}-to-${lastDay}`, from, to: last + DAY_MS };
}

const CONTENT_DISPOSITION = always(
  'Content-Disposition',
  'The name of the file.',
  {
    type: 'string',
    pattern: '^attachment; filename="payments-\\d{4}-\\d{2}-\\d{2}(-to-\\d{4}-\\d{2}-\\d{2})?\\.ndjson"$',
  },
  'attachment; filename="payments-2026-11-20.ndjson"',
);

function exportText(): string {
  const totals = new ExportTotals();
  totals.add([completed]);
  return `${operatorsJson(completed)}\n${totals.json()}\n`;
}

const description: RouteDescription = {
  operationId: 'exportPayments',
  tag: 'Payment records',
  summary: 'Export the payments that were settled on a day, or on several',
  text: 'One JSON object for each line, in the order of settling. The last line is `{"end":true,"count":3,"sums":{"EUR":"30.00"}}`: how many payments and refunds came before it, and the exact sums by currency of the payments that are `COMPLETED`. With `kind=refund` or `kind=all` it has `refundSums` too, of the refunds. An export without this line was cut, and is not whole. A line may begin with blanks, while many payments of other processors are passed over.',
  parameters: {
    day: {
      text: 'The day, in UTC.',
      required: true,
      schema: { type: 'string', format: 'date' },
      example: '2026-11-20',
    },
    lastDay: {
      text: `The last of several days, which is included; \`day\` is the first. At most ${MOST_DAYS} days.`,
      schema: { type: 'string', format: 'date' },
    },
    processor: { text: 'Only payments of the processor with this name.', schema: { type: 'string' } },
    kind: KIND,
  },
  answers: {
    200: {
      text: 'The payments, one to a line, each as in `getPayment`, and the line that ends the export.',
      headers: [NO_STORE, CONTENT_DISPOSITION],
      content: {
        mediaType: 'application/x-ndjson',
        schema: { type: 'string' },
        examples: { one: exportText() },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ days: '' }, PARAMETERS),
      invalidDay: () => readDays('2026-11-31', undefined),
      invalidLastDay: () => readDays('2026-11-30', '2026-11-01'),
      invalidKind: () => kindAsked('refunds'),
    },
  ],
};
