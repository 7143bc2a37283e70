import { startReferenceProcessor } from '../processes/reference-processor.js';
import { startTcpProxy } from '../servers/tcp-proxy.js';

export type SlowProcessor = Awaited<ReturnType<typeof startSlowProcessor>>;

/** A reference processor behind a wire that counts what reaches it. */
export async function startSlowProcessor(latencyMs: number) {
  const processor = await startReferenceProcessor({ behaviour: { latencyMs } });
  const wire = await startTcpProxy(processor.port);
  const charges = wire.count('POST /charges ');
  const lookUps = wire.count('GET /charges/');
  return {
    /** For PROCESSOR_URL. */
    url: wire.through(processor.url),
    processor,
    /** Requests so far, whatever became of them. */
    sent: () => ({ charges: charges(), lookUps: lookUps() }),
    async close() {
      await wire.close();
      await processor.close();
    },
  };
}
