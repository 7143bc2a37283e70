import type { Random } from '../../testkit/random.js';
import type { NetworkConditions } from './network.js';
import type { ProcessorBehaviour } from './payments/processor.js';
import type { ServerName } from './stores.js';
import type { Trigger } from './triggered-faults.js';

/** By the time, or at a step of whichever process is at work on a subject: a client's key, or a transaction, by its number. */
type Moment = { readonly at: number } | Trigger<number>;

/** A process by its index, or the one whose step triggered the fault. */
type Target = number | 'caller';

export type FaultKind =
  | { readonly kind: 'crash' | 'drain'; readonly target: Target; readonly forMs: number }
  | { readonly kind: 'pause'; readonly target: Target; readonly forMs: number; readonly wakesInOrder: boolean }
  /** It wakes only to die. */
  | { readonly kind: 'pause and crash'; readonly target: Target; readonly forMs: number; readonly thenMs: number }
  /** The next message is lost. */
  | { readonly kind: 'cut' }
  /** It is late. */
  | { readonly kind: 'delay'; readonly forMs: number }
  /** FLUSHALL: the server goes on under its old name. */
  | { readonly kind: 'flush' }
  | { readonly kind: 'evict'; readonly what: 'record' | 'lock' | 'entry' | 'token' | 'marks'; readonly of: number }
  /** After `forMs` a replica takes over that has heard of nothing since now: the server has another name. */
  | { readonly kind: 'failover'; readonly forMs: number }
  | {
      readonly kind: 'network';
      readonly server: ServerName;
      readonly of: number | 'all';
      readonly conditions: NetworkConditions;
      readonly forMs: number;
    }
  | { readonly kind: 'slow commits' | 'no room for fills'; readonly forMs: number }
  | { readonly kind: 'processor'; readonly behaviour: ProcessorBehaviour; readonly forMs: number }
  | { readonly kind: 'clock'; readonly of: number | ServerName; readonly aheadMs: number }
  | { readonly kind: 'operator'; readonly of: number };

export type Fault = Moment & FaultKind;

/** A plan: everything that a seed sets in motion, before anything has happened. A smaller plan is a simpler history. */
export interface Faulty {
  readonly seed: number;
  readonly faults: readonly Fault[];
}

/** How far the clock of the store of record is set back in all. */
export function setBackMs({ faults }: Faulty): number {
  const ofStore = faults.map((fault) => (fault.kind === 'clock' && fault.of === 'postgres' ? fault.aheadMs : 0));
  return ofStore.reduce((sum, aheadMs) => sum + Math.max(0, -aheadMs), 0);
}

export function someMs(random: Random, longest: number): number {
  return random.pick([random.below(300), random.below(longest / 8), random.below(longest)]);
}
