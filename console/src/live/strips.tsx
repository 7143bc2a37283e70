import { Badge } from '../parts/badge.js';
import type { Sample } from './sample.js';

interface Properties {
  /** The samples that cover each moment of the charts. */
  readonly covering: readonly (readonly Sample[])[];
  /** The newest sample of each process. */
  readonly current: readonly Sample[];
}

type PartState = 'up' | 'away';
type StateIn = (sample: Sample) => boolean | undefined;

/** Each store and the processor over the time of the charts: away if any process says so. */
export function Strips({ covering, current }: Properties) {
  const stores = [...new Set(covering.flat().flatMap((sample) => Object.keys(sample.stores)))].sort();
  const parts: [string, StateIn][] = [
    ...stores.map((name): [string, StateIn] => [name, (sample) => sample.stores[name]]),
    ['processor', (sample) => sample.processorUp],
  ];
  return (
    <ul class="strips">
      {parts.map(([name, stateIn]) => {
        const states = covering.map((samples) => stateOf(samples, stateIn));
        const now = stateOf(current, stateIn);
        return (
          <li key={name}>
            <span class="name">{name}</span>
            <svg
              viewBox={`0 0 ${states.length} 8`}
              preserveAspectRatio="none"
              role="img"
              aria-label={spoken(name, states)}
            >
              {runsOf(states).map(({ state, from, length }) => (
                <rect key={from} class={state} x={from} width={length} height="8" />
              ))}
            </svg>
            <Badge tone={now === 'up' ? 'good' : now === 'away' ? 'bad' : 'plain'}>{now ?? 'unknown'}</Badge>
          </li>
        );
      })}
    </ul>
  );
}

function stateOf(samples: readonly Sample[], stateIn: StateIn): PartState | undefined {
  const known = samples.map(stateIn).filter((state) => state !== undefined);
  if (known.length === 0) return undefined;
  return known.every(Boolean) ? 'up' : 'away';
}

/** Neighbours of one state are one rectangle. Gaps have none. */
function runsOf(states: readonly (PartState | undefined)[]) {
  const runs: { state: PartState; from: number; length: number }[] = [];
  for (const [index, state] of states.entries()) {
    if (!state) continue;
    const last = runs.at(-1);
    if (last?.state === state && last.from + last.length === index) last.length += 1;
    else runs.push({ state, from: index, length: 1 });
  }
  return runs;
}

function spoken(name: string, states: readonly (PartState | undefined)[]): string {
  const known = states.filter((state) => state !== undefined).length;
  const away = states.filter((state) => state === 'away').length;
  if (known === 0) return `${name}: nothing known yet`;
  return away === 0 ? `${name}: up all the time` : `${name}: away in ${away} of ${known} moments`;
}
