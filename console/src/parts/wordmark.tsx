/** The name next to its mark: one check, however often it is asked. */
export function Wordmark() {
  return (
    <span class="wordmark">
      <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
        <rect width="16" height="16" rx="3" fill="currentColor" />
        <path d="M4 8.2 6.8 11 12 5" />
      </svg>
      Idempay
    </span>
  );
}
