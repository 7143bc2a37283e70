import { dashOf } from '../theme/palette.js';

/** How a series looks in its chart. */
export function Swatch({ style, isBar = false }: { style: number; isBar?: boolean }) {
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
