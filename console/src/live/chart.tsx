import { useEffect, useRef, useState } from 'preact/hooks';
import { dashOf } from '../theme/palette.js';
import { Plot, type PlotData, type PlotSeries } from './plot.js';

interface Properties {
  readonly title: string;
  readonly series: readonly PlotSeries[];
  readonly data: PlotData;
  /** For each of `series`, true if it is drawn and listed. */
  readonly shown: readonly boolean[];
  /** The place of the values that are shown while no cursor is on a chart; below 0 none are shown. */
  readonly latestIndex: number;
  /** Changes when the data did. */
  readonly version: number;
  readonly text: (value: number) => string;
  readonly kind?: 'lines' | 'bars';
  readonly most?: number | undefined;
  readonly steps?: readonly number[] | undefined;
  readonly group?: string;
  readonly width?: 'wide' | 'full' | undefined;
  /** The value of a series in words and legend, if it is drawn as something else. */
  readonly shownValue?: (series: number, index: number) => number | null;
  /** The legend's text for a series while no cursor is on the chart; if omitted, its latest value. */
  readonly summary?: ((series: number) => string) | undefined;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** A chart with its legend. By keyboard the arrow keys move its cursor, and the values are said. */
export function Chart(properties: Properties) {
  const {
    title,
    series,
    data,
    shown,
    latestIndex,
    version,
    text,
    kind = 'lines',
    most,
    steps,
    group,
    width,
    summary,
  } = properties;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | undefined>(undefined);
  const [cursor, setCursor] = useState<number | null>(null);
  const index = cursor ?? latestIndex;
  const at = data[0][index];
  const shownValue = properties.shownValue ?? ((line, point) => data[line + 1]?.[point] ?? null);
  const valueText = (line: number) => {
    const value = index < 0 ? null : shownValue(line, index);
    return value === null ? '–' : text(value);
  };

  useEffect(() => {
    if (!place.current) return;
    const made = new Plot(place.current, { series, kind, text, most, steps, group, onCursor: setCursor }, data);
    plot.current = made;
    return () => made.end();
  }, [series, data]);
  // The arrays stay the same: the version says that they were filled again.
  useEffect(() => plot.current?.show(data, shown), [version, series, data]);

  function onKeyDown(event: KeyboardEvent) {
    const next = nextIndex(event.key, cursor, latestIndex);
    if (next === undefined) return;
    event.preventDefault();
    plot.current?.moveCursor(next);
  }

  const listed = series.map((one, line) => ({ ...one, line })).filter(({ line }) => shown[line]);
  const said = listed.map(({ name, line }) => `${name} ${valueText(line)}`).join(', ');
  return (
    <figure class={`chart ${width ?? ''}`}>
      <figcaption>
        <h2>{title}</h2>
        <span class="muted">{cursor !== null && at !== undefined && CLOCK.format(at)}</span>
      </figcaption>
      <ul class="legend">
        {listed.map(({ name, style, line }) => (
          <li key={name}>
            <Swatch style={style} isBar={kind === 'bars'} />
            {name} <output>{cursor === null && summary ? summary(line) : valueText(line)}</output>
          </li>
        ))}
        {listed.length === 0 && <li class="muted">nothing yet</li>}
      </ul>
      <div
        ref={place}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={`${title}, a moment of the chart`}
        aria-valuemin={0}
        aria-valuemax={data[0].length - 1}
        aria-valuenow={Math.max(0, index)}
        aria-valuetext={at === undefined || index < 0 ? 'nothing yet' : `${CLOCK.format(at)}: ${said}`}
        onKeyDown={onKeyDown}
        onBlur={() => plot.current?.moveCursor(null)}
      />
    </figure>
  );
}

/** The index to which a key moves the cursor. Null removes it; undefined is for a key that the chart does not use. */
function nextIndex(key: string, cursor: number | null, latest: number): number | null | undefined {
  const from = cursor ?? latest + 1;
  switch (key) {
    case 'ArrowLeft':
      return Math.max(0, from - 1);
    case 'ArrowRight':
      return Math.min(Math.max(0, latest), from + 1);
    case 'PageUp':
      return Math.max(0, from - 12);
    case 'PageDown':
      return Math.min(Math.max(0, latest), from + 12);
    case 'Home':
      return 0;
    case 'End':
      return Math.max(0, latest);
    case 'Escape':
      return null;
    default:
      return undefined;
  }
}

/** How a series looks in its chart. */
function Swatch({ style, isBar = false }: { style: number; isBar?: boolean }) {
  return (
    <svg class={`swatch series-${style % 8}`} viewBox="0 0 18 8" width="18" height="8" aria-hidden="true">
      {isBar ? (
        <rect x="5" width="8" height="8" />
      ) : (
        <line x1="0" x2="18" y1="4" y2="4" stroke-dasharray={dashOf(style).join(' ') || undefined} />
      )}
    </svg>
  );
}
