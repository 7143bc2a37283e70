import type { PaymentHistory } from './run.js';

/** Rule E1: every settlement is in the feed, once, and none is before its commit. A clock that is moved forth and back is no promise. */
export function checkFeed({ feed, stores, faults, plan }: PaymentHistory): string[] {
  if (!feed) return [];
  const { shown } = feed;
  const rows = [...stores.payments.byKey.values()];
  const keys = new Set(shown.map(({ key }) => key));
  const isMissing = ({ key, finalAt }: (typeof rows)[number]) => finalAt !== undefined && !keys.has(key);
  const missing = faults.clockWasMoved() ? [] : rows.filter(isMissing);
  const seen = new Set<string>();
  const again = shown.filter(({ key, begins }) => {
    const name = `${key} ${begins}`;
    if (seen.has(name)) return true;
    seen.add(name);
    return false;
  });
  const early = shown.filter(({ key, at }) => {
    const committedAt = stores.payments.rowsOf(key).map(({ finalAt = Infinity }) => finalAt);
    return committedAt.length > 0 && at < Math.min(...committedAt);
  });
  return [
    ...missing.map(({ key }) => `${key}: is settled and is not in the feed`),
    ...again.map(({ key }) => `${key}: is in the feed twice`),
    // A restore takes rows back, and they are settled again later.
    ...(plan.shape.loss ? [] : early.map(({ key }) => `${key}: is in the feed before its commit`)),
  ];
}
