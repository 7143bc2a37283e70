import { type ReferenceProcessor, startReferenceProcessor } from '../processes/reference-processor.js';
import { startTcpProxy } from '../servers/tcp-proxy.js';

/** A reference processor behind a wire that counts what reaches it. */
export interface SlowProcessor {
  /** For PROCESSOR_URL. */
  readonly url: string;
  readonly processor: ReferenceProcessor;
  /** Requests so far, whatever became of them. */
  sent(): { readonly charges: number; readonly lookUps: number };
  close(): Promise<void>;
}

export async function startSlowProcessor(latencyMs: number): Promise<SlowProcessor> {
  const processor = await startReferenceProcessor({ behaviour: { latencyMs } });
  const wire = await startTcpProxy(processor.port);
  const charges = wire.count('POST /charges ');
  const lookUps = wire.count('GET /charges/');
  return {
    url: wire.through(processor.url),
    processor,
    sent: () => ({ charges: charges(), lookUps: lookUps() }),
    async close() {
      await wire.close();
      await processor.close();
    },
  };
}
