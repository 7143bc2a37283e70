import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';

/** The only fact about a payment in a span: the key would give access to the payment, and a trace does not need its amount. */
export const TRANSACTION_ID = 'idempay.transaction_id';

/**
 * The span under way, handed on through promises. Node pays for that with each promise, so there is one of these only if traces are
 * exported. A span begins only under another one that is recorded, or as a root: the service's own work (clocks, probes of the stores)
 * makes no traces.
 */
export class Spans {
  private readonly storage = new AsyncLocalStorage<Span | undefined>();

  constructor(private readonly tracer: Tracer) {}

  /** Also one that is not recorded: its context is still handed on. */
  underWay(): Span | undefined {
    return this.storage.getStore();
  }

  recorded(): Span | undefined {
    const span = this.storage.getStore();
    return span?.isRecording() ? span : undefined;
  }

  run<T>(span: Span | undefined, work: () => T): T {
    return this.storage.run(span, work);
  }

  /** Continues the caller's trace, or begins one. */
  beginRoot(name: string, options: SpanOptions, caller: Context = ROOT_CONTEXT): Span {
    return this.tracer.startSpan(name, options, caller);
  }

  /** `work` as a part of the trace under way; without one it is only done. `note` is given what it resolves to. */
  inside<T>(
    name: string,
    options: SpanOptions,
    work: () => Promise<T>,
    note: (span: Span, result: T) => void,
  ): Promise<T> {
    const parent = this.recorded();
    if (!parent) return work();
    return this.during(this.tracer.startSpan(name, options, trace.setSpan(ROOT_CONTEXT, parent)), work, note);
  }

  /** Ends the span with the work. */
  async during<T>(span: Span, work: () => Promise<T>, note: (span: Span, result: T) => void): Promise<T> {
    try {
      const result = await this.storage.run(span, work);
      note(span, result);
      return result;
    } catch (fault) {
      // Not its message, which may name what a store was asked for.
      span.setAttribute('error.type', (fault as Error).name).setStatus({ code: SpanStatusCode.ERROR });
      throw fault;
    } finally {
      span.end();
    }
  }
}
