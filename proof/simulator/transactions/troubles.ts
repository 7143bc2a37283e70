import type { Transaction } from '#idempay/transactions/transaction.js';
import type { Transactions } from '#idempay/transactions/transactions.js';
import type { Ambushes, Mishap } from '../ambushes.js';
import type { Fleet } from '../fleet.js';
import type { Actor, Simulation } from '../simulation.js';
import { TROUBLED_MS, type Trouble } from './plan.js';
import type { TransactionStores } from './stores.js';
import type { TransactionTable } from './table.js';

/** What goes wrong. */
export class TransactionTroubles {
  constructor(
    private readonly simulation: Simulation,
    private readonly ambushes: Ambushes,
    private readonly fleet: Fleet<Transactions>,
    private readonly stores: TransactionStores,
    private readonly table: TransactionTable,
    private readonly hot: readonly Transaction[],
  ) {}

  lie(troubles: readonly Trouble[]): void {
    for (const trouble of troubles) {
      if ('at' in trouble) {
        this.simulation.after(trouble.at, undefined, () => void this.strike(trouble, undefined));
      } else {
        const { hot, notBefore, point, only } = trouble;
        const ambush = { subject: String(this.hot[hot]?.id), operation: { notBefore }, point, only };
        this.ambushes.lay(ambush, (caller) => this.strike(trouble, caller));
      }
    }
  }

  end(): void {
    const { lines, mood } = this.stores;
    lines.cache.clearWeather();
    lines.store.clearWeather();
    Object.assign(mood, { slowCommits: 0, noRoom: 0 });
  }

  private strike(trouble: Trouble, caller: Actor | undefined): Mishap {
    const { simulation, fleet, stores } = this;
    if (simulation.time >= TROUBLED_MS) return undefined;
    if (simulation.tracing) simulation.note(`TROUBLE ${JSON.stringify(trouble)}`);
    const untilTheEnd = TROUBLED_MS - simulation.time;
    switch (trouble.kind) {
      case 'crash':
        fleet.crash(indexOf(trouble.whom, caller), Math.min(trouble.forMs, untilTheEnd));
        return undefined;
      case 'pause': {
        const forMs = Math.min(trouble.forMs, untilTheEnd);
        fleet.pause(indexOf(trouble.whom, caller), forMs, trouble.wakesInOrder);
        return undefined;
      }
      case 'pause and crash': {
        const index = indexOf(trouble.whom, caller);
        const forMs = Math.min(trouble.forMs, untilTheEnd);
        fleet.pause(index, forMs, true);
        simulation.after(forMs + trouble.thenMs, undefined, () => fleet.crash(index, 0), `i${index} dies`);
        return undefined;
      }
      case 'cut':
        return 'lost';
      case 'delay':
        return trouble.forMs;
      case 'forget everything':
        simulation.count('losses');
        stores.cacheServer?.forget();
        return undefined;
      case 'forget':
        simulation.count('losses');
        stores.cacheServer?.forget((this.hot[trouble.hot] as Transaction).id, trouble.what);
        return undefined;
      case 'fall back': {
        const restore = stores.cacheServer?.snapshot();
        const fall = () => {
          simulation.count('losses');
          restore?.();
        };
        simulation.after(Math.min(trouble.forMs, untilTheEnd), undefined, fall, 'the cache falls back');
        return undefined;
      }
      case 'weather': {
        const line = stores.lines[trouble.server];
        const instances = trouble.of === 'all' ? fleet.indexes() : [trouble.of];
        const weather = line.setWeather(instances, trouble.weather);
        simulation.count('weather');
        simulation.after(trouble.forMs, undefined, () => weather.clear());
        return undefined;
      }
      case 'slow commits':
        this.whileIn(trouble.forMs, 'slowCommits');
        return undefined;
      case 'no room for fills':
        this.whileIn(trouble.forMs, 'noRoom');
        return undefined;
      case 'clock': {
        const { of, aheadMs } = trouble;
        const walls = { cache: stores.cacheServer?.wall, store: this.table.wall };
        const wall = typeof of === 'number' ? fleet.walls[of] : walls[of];
        if (wall) wall.aheadMs += aheadMs;
        simulation.count('clock jumps');
        return undefined;
      }
    }
  }

  private whileIn(ms: number, mood: 'slowCommits' | 'noRoom'): void {
    const { simulation, stores } = this;
    simulation.count(mood);
    stores.mood[mood] += 1;
    const end = () => {
      stores.mood[mood] = Math.max(0, stores.mood[mood] - 1);
    };
    simulation.after(ms, undefined, end);
  }
}

function indexOf(whom: number | 'caller', caller: Actor | undefined): number {
  return whom === 'caller' ? (caller?.index ?? 0) : whom;
}
