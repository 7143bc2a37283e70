import type { ProcessorKnowledge } from './ask-processor.js';

/** Every member always, null where there is nothing. */
export function processorAnswerJson(
  key: string,
  { processor, askedAt, answer, reason }: Extract<ProcessorKnowledge, { state: 'answered' }>,
): string {
  const askedAtText = new Date(askedAt).toISOString();
  return JSON.stringify({ idempotencyKey: key, processor, askedAt: askedAtText, answer, reason: reason ?? null });
}
