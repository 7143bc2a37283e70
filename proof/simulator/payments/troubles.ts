import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { Ambushes, Mishap } from '../ambushes.js';
import type { Fleet } from '../fleet.js';
import { type Actor, hashOf, type Simulation } from '../simulation.js';
import { keyOf, type PaymentClients } from './clients.js';
import { TROUBLED_MS, type Trouble } from './plan.js';
import { type ProcessorMachine, WELL } from './processor.js';
import type { Row } from './rows.js';
import { type Interval, LEDGER_DEADLINE_MS, type PaymentStores } from './stores.js';

/** Whoever lost a message has noticed by then. */
const LOSS_IS_FELT_MS = LEDGER_DEADLINE_MS + 1_000;

/** What goes wrong, and what the judge must know of it. */
export class PaymentTroubles {
  /** When the key store forgot something of a key (or of all: undefined), or a clock that judges expiry was moved. */
  readonly forgot: { readonly at: number; readonly key: string | undefined }[] = [];
  /** When an operator first made up its mind about a payment. */
  private readonly verdicts = new Map<string, number>();
  /** When servers or ways were not well. */
  private readonly unwell: Interval[] = [];
  /** When anything at all was wrong, and as long as a lock or a lease that was left behind may stand. */
  private readonly disturbed: Interval[] = [];

  private readonly ledgerWasSetAhead: number[] = [];
  private clocksMoved = 0;
  private clocksMovedByMs = 0;

  constructor(
    private readonly simulation: Simulation,
    private readonly ambushes: Ambushes,
    private readonly fleet: Fleet<PaymentArea>,
    private readonly stores: PaymentStores,
    private readonly processor: ProcessorMachine,
    private readonly clients: PaymentClients,
    private readonly leaseMs: number,
  ) {}

  lie(troubles: readonly Trouble[]): void {
    for (const trouble of troubles) {
      if ('at' in trouble) {
        this.simulation.after(trouble.at, undefined, () => void this.strike(trouble, undefined));
      } else {
        const { script, operation, point } = trouble;
        this.ambushes.lay({ subject: keyOf(script), operation, point }, (caller) => this.strike(trouble, caller));
      }
    }
  }

  /** Every way is fine, and every server well. */
  end(): void {
    const { lines } = this.stores;
    lines['key store'].clearWeather();
    lines.ledger.clearWeather();
    this.processor.behaviour = WELL;
  }

  /** An operator gives the verdict that is true, where nothing can change it any more. */
  resolve(key: string): void {
    const { simulation, fleet } = this;
    const state = this.processor.verdictOn(key);
    if (state === undefined) return;
    if (!this.verdicts.has(key)) this.verdicts.set(key, simulation.time);
    const random = simulation.luck(hashOf(`operator ${key}`));
    const verdict = { state, reason: 'the operator asked the processor' };
    fleet.call(
      random.below(fleet.size),
      random,
      simulation.tracing ? `resolve ${key} as ${state}` : '',
      ({ records }) => records.resolve(key, verdict),
      (answer) => simulation.note(typeof answer === 'string' ? answer : `the operator hears: ${answer.state}`),
    );
  }

  private strike(trouble: Trouble, caller: Actor | undefined): Mishap {
    const { simulation, fleet, stores, processor } = this;
    if (simulation.time >= TROUBLED_MS) return undefined;
    if (simulation.tracing) simulation.note(`TROUBLE ${JSON.stringify(trouble)}`);
    const untilTheEnd = TROUBLED_MS - simulation.time;
    // What a clock that was set back had given a life to lives longer, and longer still when it is set back again.
    if (trouble.kind === 'clock') this.clocksMovedByMs += Math.abs(trouble.aheadMs);
    const lastsMs = trouble.kind === 'clock' ? this.clocksMovedByMs : 'forMs' in trouble ? trouble.forMs : 0;
    this.disturbed.push({ from: simulation.time, to: simulation.time + lastsMs + LOSS_IS_FELT_MS + this.leaseMs });
    switch (trouble.kind) {
      case 'crash':
        fleet.crash(indexOf(trouble.whom, caller), Math.min(trouble.forMs, untilTheEnd));
        return undefined;
      case 'pause': {
        const forMs = Math.min(trouble.forMs, untilTheEnd);
        fleet.pause(indexOf(trouble.whom, caller), forMs, trouble.wakesInOrder);
        return undefined;
      }
      case 'cut':
        this.unwell.push({ from: simulation.time, to: simulation.time + LOSS_IS_FELT_MS });
        return 'lost';
      case 'delay':
        this.unwell.push({ from: simulation.time, to: simulation.time + LOSS_IS_FELT_MS + trouble.forMs });
        return trouble.forMs;
      case 'forget everything':
        this.forget(undefined);
        return undefined;
      case 'forget a key':
        this.forget(keyOf(trouble.script), trouble.what);
        return undefined;
      case 'forget the last writes':
        this.forgetLastWrites(Math.min(trouble.forMs, untilTheEnd));
        return undefined;
      case 'weather': {
        const line = stores.lines[trouble.server];
        const instances = trouble.of === 'all' ? fleet.indexes() : [trouble.of];
        const weather = line.setWeather(instances, trouble.weather);
        simulation.count('weather');
        this.isUnwellFor(trouble.forMs, LOSS_IS_FELT_MS, () => weather.clear());
        return undefined;
      }
      case 'processor':
        processor.behaviour = trouble.behaviour;
        simulation.count('bad behaviour of the processor');
        this.isUnwellFor(trouble.forMs, 0, () => {
          if (processor.behaviour === trouble.behaviour) processor.behaviour = WELL;
        });
        return undefined;
      case 'clock': {
        const wall = typeof trouble.of === 'number' ? fleet.walls[trouble.of] : stores.walls[trouble.of];
        if (wall) wall.aheadMs += trouble.aheadMs;
        if (wall === stores.walls.ledger && trouble.aheadMs > 0) this.ledgerWasSetAhead.push(simulation.time);
        if (typeof trouble.of === 'string') {
          this.forgot.push({ at: simulation.time, key: undefined });
          this.clocksMoved += 1;
        }
        simulation.count('clock jumps');
        return undefined;
      }
      case 'operator': {
        const key = keyOf(trouble.script);
        if (this.clients.issued.some((issued) => issued.key === key)) this.resolve(key);
        return undefined;
      }
    }
  }

  private forget(key: string | undefined, what?: 'record' | 'lock'): void {
    this.simulation.count('losses');
    this.stores.keyServer?.forget(key, what);
    if (what !== 'lock') this.forgot.push({ at: this.simulation.time, key });
  }

  private forgetLastWrites(forMs: number): void {
    const { simulation } = this;
    const restore = this.stores.keyServer?.snapshot();
    const { time } = simulation;
    simulation.after(
      forMs,
      undefined,
      () => {
        simulation.count('losses');
        this.forgot.push({ at: time, key: undefined }, { at: simulation.time, key: undefined });
        restore?.();
      },
      'the key store is as it was before',
    );
  }

  /** Of a server that judges when something expires. */
  clockWasMoved(): boolean {
    return this.clocksMoved > 0;
  }

  /**
   * Sent between the operator's look at the processor and its verdict's arrival: nobody can know of it then. Or within a
   * lease after it, by an owner whose lease a clock that was set ahead had ended for all others.
   */
  isBehindAnOperatorsBack({ key, resolution, firstThereAt, finalAt = 0 }: Row, sentAt: number): boolean {
    const lookedAt = this.verdicts.get(key);
    if (resolution === undefined || lookedAt === undefined || sentAt < lookedAt) return false;
    if (sentAt < finalAt) return true;
    const wasSetAhead = this.ledgerWasSetAhead.some((at) => at >= firstThereAt && at <= finalAt);
    return wasSetAhead && sentAt < finalAt + this.leaseMs;
  }

  /** All servers and ways were well. */
  wereCalm(from: number, to: number): boolean {
    return !isDuring(this.unwell, from, to) && !isDuring(this.stores.slowCommits, from - LEDGER_DEADLINE_MS, to);
  }

  /** Nothing was wrong for the payment, and nothing wrong was felt any more. */
  wereOver(payment: string, from: number, to: number): boolean {
    const { slowCommits } = this.stores;
    const own = slowCommits.filter(({ key }) => key === payment);
    return (
      !isDuring(this.disturbed, from, to) &&
      !isDuring(own, from - LOSS_IS_FELT_MS - this.leaseMs, to) &&
      !isDuring(slowCommits, from - LEDGER_DEADLINE_MS, to)
    );
  }

  /** Whether the key store may have forgotten the key since it was asked for. */
  mayHaveForgotten(key: string, since: number, until: number): boolean {
    return this.forgot.some((loss) => (loss.key ?? key) === key && loss.at >= since && loss.at <= until);
  }

  private isUnwellFor(ms: number, feltMs: number, end: () => void): void {
    const { time } = this.simulation;
    // Others of the same process may have to wait until whoever lost a message has noticed.
    this.unwell.push({ from: time, to: Math.min(time + ms, TROUBLED_MS) + feltMs });
    this.simulation.after(ms, undefined, end);
  }
}

function isDuring(intervals: readonly Interval[], from: number, to: number): boolean {
  return intervals.some((interval) => interval.from <= to && interval.to >= from);
}

function indexOf(whom: number | 'caller', caller: Actor | undefined): number {
  return whom === 'caller' ? (caller?.index ?? 0) : whom;
}
