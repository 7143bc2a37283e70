import type { Environment } from '../../testkit/processes/service.js';
import type { Measured } from '../costs.js';
import type { Plan } from './rows.js';

/** The room that the rows take. `onDisk` is SQLite's file, or Redis's file. */
export type Bytes = Readonly<Record<'paymentBytes' | 'payments' | 'keyBytes' | 'keys' | 'onDisk', number>>;

/** The stores of one deployment, which can be filled by themselves. */
export interface GrowthStores {
  readonly settings: Environment;
  /** Servers besides the service, whose CPU time is counted. */
  readonly parts: Readonly<Record<string, Measured>>;
  /** Rows like the one that the service wrote under `templateKey`, as `plan` says. No service runs meanwhile. */
  fill(plan: Plan, templateKey: string): Promise<void>;
  bytes(): Promise<Bytes>;
  /**
   * A Redis that has just been filled goes on enlarging its table with every command, and a payment then costs it more than twice
   * as much as after a start.
   */
  restart(): Promise<void>;
  /** As if a process had run all the time until now. */
  seeHours(plan: Plan): Promise<void>;
  /** The records of the first `count` payments end at `atMs`. */
  expireKeys(plan: Plan, count: number, atMs: number): Promise<void>;
  /** Old payments may be removed at once. */
  allowRemoval(plan: Plan): Promise<void>;
  /** How many are there now; also while a service runs. */
  countKeys(): Promise<number>;
  countOldPayments(plan: Plan): Promise<number>;
  /** As after a restore: no statistics, and nobody gathers them. */
  forgetStatistics(): Promise<void>;
  gatherStatistics(): Promise<void>;
}
