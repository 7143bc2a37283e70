const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** A moment in the reader's locale and zone; in UTC when it is pointed at. Nothing for null. */
export function Time({ at, clockOnly = false }: { at: string | number | null | undefined; clockOnly?: boolean }) {
  if (at === null || at === undefined) return <span class="muted">–</span>;
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return <span>{String(at)}</span>;
  const utc = moment.toISOString();
  return (
    <time datetime={utc} title={`${utc.replace('T', ' ').replace('Z', '')} UTC`}>
      {(clockOnly ? CLOCK : FULL).format(moment)}
    </time>
  );
}
