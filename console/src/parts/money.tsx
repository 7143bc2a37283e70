import { amountText } from './numbers.js';

/** An amount as it is kept: all decimals that are there, and no more. It stays text, because a number of JavaScript could not hold each exactly. */
export function Money({ amount, currency }: { amount: string | number | null; currency?: string | null }) {
  if (amount === null) return <span class="muted">–</span>;
  return (
    <span class="money" title={currency ? `${amount} ${currency}` : String(amount)}>
      {amountText(String(amount))}
      {currency && <span class="muted"> {currency}</span>}
    </span>
  );
}
