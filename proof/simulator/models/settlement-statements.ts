import { recordColumnsOf, type StoredPayment } from './payment-statements.js';
import type { Statements, Tables } from './postgres-server.js';
import { settledAfter } from './retention-statements.js';

/** A row of the table of incarnations; the last one counts. */
export interface Incarnation {
  readonly incarnation: string;
  readonly beganAt: number;
}

/** The incarnations with another one, of a name that no lost incarnation had. */
export function begunIncarnation({ incarnations, loss }: Pick<Tables, 'incarnations' | 'loss'>, now: number) {
  const incarnation = `${loss.generation}`.padStart(8, '0') + `${incarnations.length}`.padStart(8, '0');
  return [...incarnations, { incarnation, beganAt: now }];
}

type Question = [
  afterUs: number,
  afterKey: string,
  untilUs: number,
  client: string | null,
  limit: number,
  read: number,
];

const newest = ({ incarnations }: Tables) => incarnations.at(-1)?.incarnation as string;

function pageOf(isRead: (row: StoredPayment) => boolean, isShown: (row: StoredPayment) => boolean): Statements[string] {
  return (tables, [afterUs, afterKey, untilUs, client, limit, readLimit]: Question) => {
    const { removedUntil } = tables.retention;
    const oldestUs = removedUntil === null ? 0 : Math.floor(removedUntil * 1000) + 1;
    const start = afterUs >= oldestUs ? [afterUs, afterKey] : [oldestUs, ''];
    const rows = settledAfter(tables, ...(start as [number, string])).filter(
      ({ row, us }) => us < untilUs && isRead(row),
    );
    const looked = rows.slice(0, readLimit);
    const page = looked.filter(({ row }) => (client ?? row.client) === row.client && isShown(row)).slice(0, limit);
    const feed = {
      incarnation: newest(tables),
      removed_us: removedUntil === null ? null : oldestUs - 1,
      ...endOf(page.length < limit ? rows.slice(readLimit - 1, readLimit + 1) : []),
    };
    if (page.length === 0) return [{ ...feed, key: null }];
    return page.map(({ row, us }) => ({ ...recordColumnsOf(row), ...feed, place_us: us }));
  };
}

/** The row at which the reading ended, if there is one after it. */
function endOf([last, next]: ReturnType<typeof settledAfter>) {
  if (!last || !next) return { read_until_us: null, last_key: null, next_key: null };
  return { read_until_us: last.us, last_key: last.row.key, next_key: next.us === last.us ? next.row.key : null };
}

const isRefund = ({ refund_of }: StoredPayment) => refund_of !== null;

/** The model of the statements in `settlement-read-statements.ts`. */
export const SETTLEMENT_STATEMENTS: Statements = {
  settlement_clock: (tables, _values, [now]) => [{ incarnation: newest(tables), now_us: Math.floor(now * 1000) }],

  settlement_writers: (tables) => [{ incarnation: newest(tables), writers: [...tables.writers] }],

  settlements_all: pageOf(
    () => true,
    () => true,
  ),
  settlements_payment: pageOf(
    () => true,
    (row) => !isRefund(row),
  ),
  settlements_refund: pageOf(isRefund, () => true),

  settlement_ends(tables, [fromUs, belowUs, limit]: [number, number, number]) {
    const settled = settledAfter(tables, fromUs - 1, 'g').filter(({ us }) => us < belowUs);
    return settled.slice(0, limit).map(({ row }) => ({ client: row.client, isRefund: isRefund(row) }));
  },

  settlement_began_after({ incarnations }, [incarnation]: [string]) {
    const later = incarnations.slice(incarnations.findIndex((each) => each.incarnation === incarnation) + 1);
    return [{ beganUs: Math.floor(Math.min(...later.map(({ beganAt }) => beganAt)) * 1000) }];
  },

  settlement_clock_went_back(tables, _values, [now]) {
    tables.incarnations = begunIncarnation(tables, now);
    return [];
  },
};
