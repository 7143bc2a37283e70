import { trace } from '@opentelemetry/api';
import { describe, expect, test } from 'vitest';
import { Exposition } from '#idempay/metrics/exposition.js';
import { measureProcessor } from '#idempay/metrics/processor-calls.js';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { traceProcessor } from '#idempay/traces/payment-traces.js';
import { Spans } from '#idempay/traces/spans.js';
import { readSamples } from '../../testkit/client/metrics.js';

/**
 * Bug: the service took the reply to an ending that named another amount for an outcome. Cause: the decorators of the processor took one
 * argument of an ending, and passed one on, so nothing compared the amounts. Fix: they pass on what they are given.
 */
const CALLS = ['charge', 'lookUp', 'end', 'refund', 'lookUpRefund'] as const;
const ARGUMENTS = [{ transactionId: 'TXN1' }, { amount: '1.00', currency: 'USD' }, { id: 'ch_1' }, 'one more'] as const;

/** Notes the arguments of each call. */
function notingProcessor(notes: unknown[][]): ProcessorClient {
  const call = async (...given: unknown[]) => {
    notes.push(given);
    return { state: 'unknown', cause: 'a test' };
  };
  return Object.fromEntries(CALLS.map((name) => [name, call])) as unknown as ProcessorClient;
}

type Decorate = (processor: ProcessorClient) => ProcessorClient;
const DECORATORS: readonly (readonly [string, Decorate])[] = [
  ['measured', (processor) => measureProcessor(new Exposition(), processor)],
  ['traced', (processor) => traceProcessor(new Spans(trace.getTracer('test')), processor)],
];

describe.each(DECORATORS)('a processor that is %s', (_, decorate) => {
  test.each(CALLS)('is given all arguments of %s', async (name) => {
    const notes: unknown[][] = [];
    const call = decorate(notingProcessor(notes))[name] as unknown as (...given: unknown[]) => Promise<unknown>;
    expect(await call(...ARGUMENTS)).toEqual({ state: 'unknown', cause: 'a test' });
    expect(notes).toEqual([ARGUMENTS]);
  });
});

test('each call is measured by its name and its result', async () => {
  const exposition = new Exposition();
  const processor = measureProcessor(exposition, notingProcessor([]));
  for (const name of CALLS) await (processor[name] as () => Promise<unknown>)();
  const counted = readSamples(exposition.text())
    .filter(({ name, value }) => name === 'idempay_processor_call_seconds_count' && value > 0)
    .map(({ labels, value }) => [labels.call, labels.result, value]);
  expect(counted.sort()).toEqual([
    ['charge', 'unknown', 1],
    ['end', 'unknown', 1],
    ['look_up', 'unknown', 1],
    ['look_up_refund', 'unknown', 1],
    ['refund', 'unknown', 1],
  ]);
});
