import type { ComponentChildren } from 'preact';
import { Account } from '../parts/account.js';
import { StatusBadge } from '../parts/badge.js';
import { amountText } from '../parts/numbers.js';
import { Time } from '../parts/time.js';
import type { Transaction } from './transaction.js';

const ROWS: readonly [name: keyof Transaction, title: string, show: (of: Transaction) => ComponentChildren][] = [
  ['fromAccount', 'From', ({ fromAccount }) => <Account account={fromAccount} />],
  ['toAccount', 'To', ({ toAccount }) => <Account account={toAccount} />],
  ['amount', 'Amount', ({ amount }) => amountText(String(amount))],
  ['status', 'Status', ({ status }) => <StatusBadge status={status} />],
  ['createdAt', 'Created', ({ createdAt }) => <Time at={createdAt} />],
];

/** One transaction, and next to it its present state, if it has changed since. */
export function Comparison({ seen, now }: { seen: Transaction; now: Transaction | undefined }) {
  return (
    <table class="comparison">
      <thead class={now ? undefined : 'visually-hidden'}>
        <tr>
          <td />
          <th scope="col">You saw</th>
          {now && <th scope="col">Now</th>}
        </tr>
      </thead>
      <tbody>
        {ROWS.map(([name, title, show]) => {
          const isChanged = now !== undefined && now[name] !== seen[name];
          return (
            <tr key={name} class={isChanged ? 'changed' : undefined}>
              <th scope="row">
                {title}
                {isChanged && <span class="mark"> changed</span>}
              </th>
              <td>{show(seen)}</td>
              {now && <td>{show(now)}</td>}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
