import type { Clock } from '#idempay/platform/clock.js';
import { createTriggeredFaults, type Faulty } from './faults.js';
import { type Opened, Processes } from './processes.js';
import { type Process, Simulation } from './simulation.js';
import { distributedStores, embeddedStores, type SimulatedPorts, type Stores } from './stores.js';

/** Makes stores wrong on purpose, for a test of the checker. */
export type Sabotage = (stores: Stores) => void;

interface WorldPlan extends Faulty {
  readonly shape: { readonly deployment: 'embedded' | 'distributed'; readonly instances: number };
}

export type World<Service> = ReturnType<typeof createWorld<Service>>;

/** All that a history happens in: processes that `open` begins, over stores that fail. */
export function createWorld<Service>(
  { seed, shape }: WorldPlan,
  [trace, sabotage]: readonly [trace: boolean, Sabotage],
  settings: { readonly slowCommits: number; readonly transactionCacheTtlMs: number },
  open: (ports: SimulatedPorts, process: Process, clock: Clock) => Opened<Service>,
) {
  const simulation = new Simulation(seed, trace);
  const triggered = createTriggeredFaults(simulation);
  const processes = new Processes<Service>(simulation, shape.instances, async (process, clock) =>
    open(await stores.open(process, clock), process, clock),
  );
  const stores: Stores =
    shape.deployment === 'embedded'
      ? embeddedStores(simulation, triggered, processes.walls[0] ?? { aheadMs: 0 })
      : distributedStores(simulation, triggered, settings);
  sabotage(stores);
  return { simulation, triggered, processes, stores };
}
