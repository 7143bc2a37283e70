import type { ObservedPayment } from '../observed.js';
import type { FeedReader } from './feed-reader.js';
import { nameOf } from './keys.js';
import type { PlannedEndpoint } from './receivers.js';
import type { PaymentHistory } from './run.js';

/** A clock that is set ahead and back in less time than this may pass between two looks of the processes: one of them may be stopped. */
const FORTH_AND_BACK_MS = 45_000;

type TellHistory = Pick<PaymentHistory, 'feeds' | 'receivers' | 'stores' | 'faults' | 'openSince'>;

/**
 * Rules E1 to E3: every settlement of the final store is in the feed, and has reached each receiver or is set aside for it; none is there
 * before its commit, and none is of another client.
 */
export function checkSettlements(history: PaymentHistory): string[] {
  return [...history.feeds.flatMap((feed) => checkFeed(feed, history)), ...checkWebhooks(history)];
}

/** Final rows, also of those that retention has removed. */
function settledIn({ stores: { payments } }: TellHistory) {
  const rows = [...payments.byKey.values(), ...payments.removed.map(({ row }) => row)];
  return rows
    .filter(({ finalAt }) => finalAt !== undefined)
    .map((row) => ({ row, us: Math.floor(Number(row.settled_at) * 1_000) }));
}

/** The names of settlements that are missing at a reader. */
export function missingIn({ planned, shown, skippedBelowUs }: FeedReader, history: TellHistory): string[] {
  if (mayBeMissing(history)) return [];
  const seen = new Set(shown.map(({ key, state }) => `${key} ${state}`));
  const { client, kind } = planned;
  return settledIn(history)
    .filter(({ row, us }) => us >= skippedBelowUs() && (client ?? row.client) === row.client)
    .filter(({ row }) => (kind ?? kindOf(row)) === kindOf(row))
    .filter(({ row }) => !seen.has(`${row.key} ${row.state}`))
    .map(({ row }) => row.key);
}

/** The names of settlements that an endpoint has to get, has not got, and are not set aside for it. */
export function untoldOf({ name, client }: PlannedEndpoint, history: TellHistory): string[] {
  const { received, beginnings, skippedBelowUs, everSetAside, setAsideNow } = history.receivers;
  const began = beginnings.get(name);
  if (!began || mayBeMissing(history)) return [];
  const kept = new Set(received.filter((each) => each.isKept && each.endpoint.name === name).map(({ id }) => id));
  const aside = setAsideNow(name);
  const isRemoved = (row: ObservedPayment) => !history.stores.payments.byKey.has(row.key);
  return settledIn(history)
    .filter(({ us }) => us >= Math.max(began.fromUs, skippedBelowUs.get(name) ?? 0))
    .filter(({ row }) => (client ?? row.client) === row.client && !kept.has(`${row.claimed.key}.${endOf(row)}`))
    .filter(({ row }) => !aside.has(row.key) && !(isRemoved(row) && everSetAside.get(name)?.has(row.key)))
    .map(({ row }) => row.key);
}

function checkFeed(feed: FeedReader, history: PaymentHistory): string[] {
  const { shown, planned } = feed;
  const seen = new Set<string>();
  const again = shown.filter(({ key, settledAtUs, begins }) => {
    const name = `${key} ${settledAtUs} ${begins}`;
    if (seen.has(name)) return true;
    seen.add(name);
    return false;
  });
  const others = shown.filter(({ key }) => isOther(planned.client, key, history));
  return [
    ...missingIn(feed, history).map((key) => `${key}: is settled and is not in the feed`),
    ...again.map(({ key }) => `${key}: is in the feed twice`),
    ...shown.flatMap(({ key, state, at }) =>
      isCommitted(key, state, at, history) ? [] : [`${key}: is in the feed before its commit`],
    ),
    ...others.map(({ key }) => `${key}: is shown to ${planned.client}, and is of another client`),
  ];
}

function checkWebhooks(history: PaymentHistory): string[] {
  const { receivers, plan, faults } = history;
  const isFencedByTime = !plan.shape.loss && !faults.clockWasMoved();
  return [
    ...receivers.endpoints.flatMap((endpoint) =>
      untoldOf(endpoint, history).map((key) => `${key}: is settled, and ${endpoint.name} was never told`),
    ),
    ...receivers.received.flatMap(({ id, body, endpoint, at }) => {
      const { type, data } = JSON.parse(body) as { type: string; data: { idempotencyKey: string; state: string } };
      const key = nameOf(data.idempotencyKey);
      const state = data.state.toLowerCase();
      if (id !== `${data.idempotencyKey}.${state}` || !type.endsWith(`.${state}`)) return [`${key}: was sent as ${id}`];
      if (!isCommitted(key, data.state, at, history)) return [`${key}: was sent as ${id} before its commit`];
      return isOther(endpoint.client, key, history) ? [`${key}: was sent to ${endpoint.name} of another client`] : [];
    }),
    ...(isFencedByTime ? receivers.sentWithoutLease : []),
  ];
}

const kindOf = ({ refund_of }: ObservedPayment) => (refund_of === null ? 'payment' : 'refund');
const endOf = ({ state }: ObservedPayment) => state.toLowerCase();

/** The row as it is, as it was removed, and as it was lost. */
const rowsOf = (key: string, { stores: { payments } }: TellHistory) => [
  ...payments.rowsOf(key),
  ...payments.lost.filter((row) => row.key === key),
];

const isCommitted = (key: string, state: string, at: number, history: TellHistory) =>
  rowsOf(key, history).some((row) => row.state === state && (row.finalAt ?? Infinity) <= at);

const isOther = (client: string | undefined, key: string, history: TellHistory) =>
  client !== undefined && rowsOf(key, history).some((row) => row.client !== client);

/**
 * No promise is given if nobody could see that the database's clock went back: no process ran from before until long after, or it was set
 * ahead a moment before. The file's clock never goes back.
 */
function mayBeMissing({ faults: { storeSet }, stores, openSince }: TellHistory): boolean {
  if (!stores.postgres) return false;
  return storeSet.some(
    ({ at, aheadMs }) =>
      aheadMs < 0 &&
      (openSince() >= at ||
        storeSet.some((other) => other.aheadMs > 0 && at - other.at < FORTH_AND_BACK_MS && other.at <= at)),
  );
}
