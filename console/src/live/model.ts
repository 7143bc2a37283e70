import { type ChartDefinition, chartsOf } from './charts.js';
import { Grid } from './grid.js';
import { History, type ProcessHistory } from './history.js';
import type { PlotData } from './plot.js';
import type { LiveSamples, Sample } from './sample.js';

/** Until the service says others. */
const USUAL_INTERVAL_MS = 5_000;
const USUAL_KEEP_MS = 900_000;
/** An older sample does not show the present. */
const NOW_INTERVALS = 3;
/** A rolling restart ends a process within this time of the start of its replacement, on whatever host. */
const REPLACED_WITHIN_MS = 120_000;

export interface ShownChart {
  readonly definition: ChartDefinition;
  /** The same arrays as long as the lines are the same. */
  readonly data: PlotData;
  readonly shown: boolean[];
}

/** The contents of the live view, made of the samples of the service. Its size depends on the processes, and not on how long it is open. */
export class LiveModel {
  #history = new History(USUAL_KEEP_MS);
  #grid = new Grid(USUAL_INTERVAL_MS, USUAL_KEEP_MS);
  #charts: readonly ShownChart[] = [];
  #queues = '';
  /** The page's clock when the newest sample came; the shown time advances from there, also without samples. */
  #heardAt = 0;
  /** The only process that is shown; undefined shows all. */
  #only: string | undefined;
  #now = 0;
  #taken = 0;
  #drawn = '';
  #version = 0;

  /** Takes those samples that it does not have yet, from the answer to a request with `since`. */
  take({ intervalMs, keepMs, samples }: LiveSamples, pageNow: number): void {
    if (intervalMs !== this.#grid.intervalMs || keepMs !== this.#grid.keepMs) {
      this.#history = new History(keepMs);
      this.#grid = new Grid(intervalMs, keepMs);
      this.#charts = [];
    }
    const newest = this.#history.latestAt;
    this.#taken += this.#history.addAnswer(samples);
    if (this.#history.latestAt !== newest) this.#heardAt = pageNow;
  }

  /** Fills the charts up to now. Needs to be called after `take`, and as time goes by. */
  show(only: string | undefined, pageNow: number): void {
    this.#only = only;
    if (this.#history.latestAt === 0) return;
    this.#now = this.#history.latestAt + Math.max(0, pageNow - this.#heardAt);
    const drawing = `${Math.floor(this.#now / this.#grid.intervalMs)} ${this.#taken} ${only}`;
    if (drawing === this.#drawn) return;
    this.#drawn = drawing;
    this.#version += 1;
    this.#grid.fill(this.#chosen(), this.#now);
    this.#makeCharts();
    for (const { definition, data, shown } of this.#charts) {
      definition.series.forEach(({ value, isRare }, line) => {
        const values = data[line + 1] as (number | null)[];
        let isThere = !isRare;
        for (const [index, samples] of this.#grid.covering.entries()) {
          const now = value(samples);
          values[index] = now;
          isThere ||= now !== null && now > 0;
        }
        shown[line] = isThere;
      });
    }
  }

  /** Changes when the charts did. */
  get version(): number {
    return this.#version;
  }

  get charts(): readonly ShownChart[] {
    return this.#charts;
  }

  /** The time of the newest sample; 0 while there is none. */
  get latestAt(): number {
    return this.#history.latestAt;
  }

  /** The next request asks for samples after this time; 0: for all. */
  get since(): number {
    return this.#history.since;
  }

  /** By the clocks of the processes. */
  get now(): number {
    return this.#now;
  }

  /** The index at which the lines end. */
  get lastIndex(): number {
    return this.#grid.lastIndex;
  }

  get times(): readonly number[] {
    return this.#grid.times;
  }

  /** The samples that cover each moment of the charts. */
  get covering(): readonly (readonly Sample[])[] {
    return this.#grid.covering;
  }

  /** The samples of now; none: there are no new ones. */
  get current(): readonly Sample[] {
    const isNow = this.#now - (this.times[this.lastIndex] ?? 0) <= NOW_INTERVALS * this.#grid.intervalMs;
    return isNow ? (this.#grid.covering[this.lastIndex] ?? []) : [];
  }

  /** All that is kept of what is shown. */
  get kept(): readonly Sample[] {
    return this.#chosen().flatMap(({ samples }) => samples);
  }

  isSilent({ latest }: ProcessHistory): boolean {
    return this.#now - latest.at > NOW_INTERVALS * this.#grid.intervalMs;
  }

  /**
   * The processes of the last minutes without those that another one has replaced, as at a restart: on the same host, or anywhere at about the
   * same time. One process replaces one.
   */
  get present(): readonly ProcessHistory[] {
    const { processes } = this.#history;
    const newOnes = processes.filter((one) => !this.isSilent(one));
    const isReplaced = ({ latest: { at, process } }: ProcessHistory) => {
      const index = newOnes.findIndex(({ latest: { process: other } }) =>
        other.host === process.host ? other.startedAt >= at : Math.abs(other.startedAt - at) < REPLACED_WITHIN_MS,
      );
      return index >= 0 && newOnes.splice(index, 1).length > 0;
    };
    return processes.filter((one) => !(this.isSilent(one) && isReplaced(one)));
  }

  #chosen(): readonly ProcessHistory[] {
    const { processes } = this.#history;
    return this.#only === undefined ? processes : processes.filter(({ instance }) => instance === this.#only);
  }

  /** A queue appears when something first waits in it. Charts are made again only when the set of queues changes. */
  #makeCharts(): void {
    const names = new Set(this.#history.processes.flatMap(({ latest }) => Object.keys(latest.queues)));
    const queues = [...names].sort();
    if (this.#charts.length > 0 && queues.join('\n') === this.#queues) return;
    this.#queues = queues.join('\n');
    const { times } = this.#grid;
    this.#charts = chartsOf(queues).map((definition) => ({
      definition,
      data: [times, ...definition.series.map(() => times.map(() => null as number | null))] as PlotData,
      shown: definition.series.map(() => true),
    }));
  }
}
