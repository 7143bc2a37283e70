import type { Answer } from '../../testkit/client/http-client.js';

/** One server to compare: how it is started, and how a client uses it. */
export interface Peer {
  readonly name: string;
  /** What it does, in one sentence. */
  readonly about: string;
  /** The file that Node runs. */
  readonly program: URL;
  /** How many processes share the stores. */
  readonly processes: 1 | 2;
  readonly stores: readonly ('redis' | 'postgres')[];
  /** Beside HOST, PORT, REDIS_URL, PROCESSOR_URL and PROCESSOR_TIMEOUT_MS, which all get. */
  environment(trial: {
    readonly deduplicates: boolean;
    readonly databaseUrl: string;
    readonly folder: string;
  }): Record<string, string>;
  readonly path: string;
  newKey(url: string): Promise<string>;
  /** What a success names: two of them for one key are two runs of the payment. */
  receiptOf(answer: Answer): string | undefined;
  /** Whether the server leaves this payment, which has no outcome, to an operator; the question may resolve it. */
  isForOperator(url: string, key: string): Promise<boolean>;
}
