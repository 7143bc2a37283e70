/** Colours of the theme for parts that draw by themselves. Canvas knows no `var()`, and no `light-dark()`. */
export interface Palette {
  readonly ink: string;
  readonly muted: string;
  readonly line: string;
  readonly series: readonly string[];
}

const SERIES = 8;

export function readPalette(): Palette {
  const probe = document.createElement('span');
  probe.hidden = true;
  document.body.append(probe);
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const palette = {
    ink: colour('ink'),
    muted: colour('ink-muted'),
    line: colour('line'),
    series: Array.from({ length: SERIES }, (_, index) => colour(`series-${index}`)),
  };
  probe.remove();
  return palette;
}

/** In pixels; none: a whole line. Neighbours in the palette have different ones. */
const DASHES: readonly (readonly number[])[] = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
/** The dashes of a series with this style. The palette comes round with other dashes. */
export const dashOf = (style: number): number[] => [
  ...(DASHES[(style + Math.floor(style / SERIES)) % DASHES.length] ?? []),
];
export const colourOf = ({ series }: Palette, style: number): string => series[style % SERIES] ?? 'currentColor';
