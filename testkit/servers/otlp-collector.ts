import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { until } from '../time/until.js';

/** More than an export is put off, on a busy machine too. */
const EXPORT_DEADLINE_MS = 15_000;

/** A span as OTLP's JSON has it; attributes by name. */
export interface ExportedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: { readonly code?: number };
}

export type Collector = Awaited<ReturnType<typeof startCollector>>;

/** Takes traces over OTLP/HTTP, keeps them, and answers as `behave` says. */
export async function startCollector() {
  const spans: ExportedSpan[] = [];
  const bodies: string[] = [];
  const asked: string[] = [];
  let answer = (response: ServerResponse): void => void response.end('{}');
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => '');
    asked.push(`${request.method} ${request.url} ${request.headers['content-type']}`);
    bodies.push(body);
    spans.push(...spansIn(body));
    response.setHeader('content-type', 'application/json');
    answer(response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    /** Everything that came, as it came. */
    bodies,
    asked,
    behave(how: 'take' | 'hang' | 'refuse'): void {
      answer = (response) => {
        if (how === 'refuse') response.statusCode = 400;
        if (how !== 'hang') response.end('{}');
      };
    },
    ofTrace: (traceId: string) => spans.filter((span) => span.traceId === traceId),
    /** The first one of which the condition is true, which may still have to come. */
    untilSpan(what: string, condition: (span: ExportedSpan) => boolean): Promise<ExportedSpan> {
      return until(`a span: ${what}`, EXPORT_DEADLINE_MS, () => spans.find(condition));
    },
    async close(): Promise<void> {
      const closed = once(server.close(), 'close');
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

type RawSpan = Omit<ExportedSpan, 'attributes'> & { readonly attributes: readonly Attribute[] };

function spansIn(body: string): ExportedSpan[] {
  const { resourceSpans } = JSON.parse(body) as {
    resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: RawSpan[] }[] }[];
  };
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        attributes: valuesOf([...resource.attributes, ...span.attributes]),
      })),
    ),
  );
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
