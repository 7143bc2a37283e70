import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { colourOf, dashOf, type Palette, readPalette } from '../theme/palette.js';
import { onThemeChange } from '../theme/theme-switch.js';

export interface PlotSeries {
  readonly name: string;
  readonly style: number;
}

export interface PlotOptions {
  readonly series: readonly PlotSeries[];
  readonly kind: 'lines' | 'bars';
  readonly text: (value: number) => string;
  readonly most?: number | undefined;
  readonly steps?: readonly number[] | undefined;
  /** The charts of one group move their cursors together. */
  readonly group?: string | undefined;
  /** The value that the cursor is at. Null while it is not on the chart. */
  onCursor(index: number | null): void;
}

/** Times in milliseconds, then the values of each series; null is a gap. The arrays may be filled again and shown again. */
export type PlotData = [times: number[], ...values: (number | null)[][]];

/** The least, so that the axis does not move when a count gets a second digit; wider labels get their own width. */
const AXIS_WIDTH = 24;
const AXIS_GAP = 8;
const AXIS_HEIGHT = 18;
/** Between two labels of the time, so that they are not read as one. */
const CLOCK_GAP = 12;
/** Half a label of the y axis has room above, and half a point of a line on the right. */
const TOP_PADDING = 8;
const RIGHT_PADDING = 4;
const FONT = '11px system-ui, sans-serif';
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });

function widthsOf({ ctx }: uPlot, labels: readonly string[]): number[] {
  ctx.save();
  ctx.font = FONT;
  const widths = labels.map((label) => ctx.measureText(label).width);
  ctx.restore();
  return widths;
}

/** The width that an axis needs, so that none of its labels is cut. */
function axisWidthOf(plot: uPlot, labels: string[] | null): number {
  return Math.max(AXIS_WIDTH, Math.ceil(Math.max(0, ...widthsOf(plot, labels ?? []))) + AXIS_GAP);
}

/** A small chart has at least two times in this way, because a language with short times gets them closer to each other. */
function clockSpace(plot: uPlot, _axis: number, from: number): number {
  return Math.max(...widthsOf(plot, [CLOCK.format(from)])) + CLOCK_GAP;
}

/** A time whose label would be cut at an edge has none: room kept for half a label would be blank most of the time. */
function clockLabels(plot: uPlot, times: readonly number[]): (string | null)[] {
  const labels = times.map((at) => CLOCK.format(at));
  const left = plot.bbox.left / uPlot.pxRatio;
  const widths = widthsOf(plot, labels);
  return labels.map((label, index) => {
    const middle = left + plot.valToPos(times[index] ?? 0, 'x');
    const half = (widths[index] ?? 0) / 2;
    return middle >= half && middle + half <= plot.width ? label : null;
  });
}

/** A chart of uPlot in the colours of the theme, as large as its place. */
export class Plot {
  readonly #plot: uPlot;
  readonly #ends: (() => void)[] = [];
  #palette: Palette = readPalette();

  constructor(
    place: HTMLElement,
    readonly options: PlotOptions,
    data: PlotData,
  ) {
    this.#plot = new uPlot(this.#settings(place), data, place);
    const resized = new ResizeObserver(() => {
      if (place.clientWidth > 0) this.#plot.setSize({ width: place.clientWidth, height: place.clientHeight });
    });
    resized.observe(place);
    this.#ends.push(
      () => resized.disconnect(),
      onThemeChange(() => {
        this.#palette = readPalette();
        this.#plot.redraw(false, true);
      }),
    );
  }

  /** `shown`: for each series, true if it is drawn. */
  show(data: PlotData, shown: readonly boolean[]): void {
    const [times] = data;
    this.#plot.batch(() => {
      shown.forEach((show, index) => {
        if (this.#plot.series[index + 1]?.show !== show) this.#plot.setSeries(index + 1, { show });
      });
      this.#plot.setData(data, false);
      this.#plot.setScale('x', { min: times[0] ?? 0, max: (times.at(-1) ?? 0) + this.#barWidth(times) });
    });
  }

  /** As the pointer would; null takes it away. */
  moveCursor(index: number | null): void {
    if (index === null) this.#plot.setCursor({ left: -10, top: -10 });
    else this.#plot.setCursor({ left: this.#plot.valToPos(this.#plot.data[0][index] ?? 0, 'x'), top: 0 });
  }

  end(): void {
    for (const end of this.#ends) end();
    this.#plot.destroy();
  }

  /** A bar begins at its time. */
  #barWidth(times: readonly number[]): number {
    return this.options.kind === 'bars' ? (times[1] ?? 0) - (times[0] ?? 0) : 0;
  }

  #settings({ clientWidth, clientHeight }: HTMLElement): uPlot.Options {
    const { series, kind, text, most, steps, group, onCursor } = this.options;
    const axis = {
      stroke: () => this.#palette.muted,
      grid: { stroke: () => this.#palette.line, width: 1 },
      ticks: { show: false },
      font: FONT,
    };
    const bars = kind === 'bars' ? uPlot.paths.bars?.({ size: [0.8, 16], align: 1 }) : undefined;
    return {
      width: Math.max(clientWidth, 1),
      height: Math.max(clientHeight, 1),
      ms: 1,
      padding: [TOP_PADDING, RIGHT_PADDING, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: false, y: false },
        points: { size: 6 },
        ...(group !== undefined && { sync: { key: group, setSeries: false } }),
      },
      scales: {
        x: { time: true },
        y: { range: (_plot, _low, high) => [0, most ?? Math.max(niceTop(high), steps?.[0] ?? 0)] },
      },
      axes: [
        { ...axis, size: AXIS_HEIGHT, space: clockSpace, values: clockLabels },
        {
          ...axis,
          size: axisWidthOf,
          space: 32,
          ...(steps && { incrs: [...steps] }),
          values: (_plot, splits) => splits.map((value) => (value === 0 ? '0' : text(value))),
        },
      ],
      series: [
        {},
        ...series.map(({ name, style }) => ({
          label: name,
          stroke: () => colourOf(this.#palette, style),
          width: 1.5,
          spanGaps: false,
          ...(bars
            ? { paths: bars, fill: () => colourOf(this.#palette, style), points: { show: false } }
            : { dash: dashOf(style), points: { show: isAlone } }),
        })),
      ],
      hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? null)] },
    };
  }
}

/** A value between two gaps has no line: a point shows it. */
function isAlone(plot: uPlot, seriesIndex: number): boolean {
  const values = plot.data[seriesIndex] ?? [];
  let count = 0;
  for (let index = 0; index < values.length; index += 1) {
    if (values[index] == null || values[index - 1] != null || values[index + 1] != null) continue;
    count += 1;
  }
  return count > 0 && values.length > 0 && !hasLine(values);
}

function hasLine(values: ArrayLike<number | null | undefined>): boolean {
  for (let index = 1; index < values.length; index += 1) {
    if (values[index] != null && values[index - 1] != null) return true;
  }
  return false;
}

/** Some room above the highest value; a flat zero lies on the axis. */
function niceTop(high: number | null): number {
  return high === null || !(high > 0) ? 1 : high * 1.1;
}
