import './parts.css';

interface Properties {
  /** The things that the pages hold: `payments`. */
  readonly what: string;
  readonly page: number;
  readonly hasNext: boolean;
  readonly isLoading?: boolean;
  first(): void;
  next(): void;
}

/** Pages follow each other by a cursor: there is a next one and the first one, and no count. */
export function Pager({ what, page, hasNext, isLoading = false, first, next }: Properties) {
  if (page === 1 && !hasNext) return null;
  return (
    <nav class="pager" aria-label={`Pages of ${what}`}>
      <button type="button" disabled={page === 1 || isLoading} onClick={first}>
        First page
      </button>
      <button type="button" disabled={!hasNext || isLoading} onClick={next}>
        Next page
      </button>
      <span class="muted" aria-live="polite">
        {hasNext ? `Page ${page}` : `Page ${page}, the last one`}
      </span>
    </nav>
  );
}
