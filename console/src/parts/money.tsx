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

/** A point before the decimals and narrow blanks between thousands, for every reader: `1.000` and `1,000` mean different amounts to different people. */
export function amountText(amount: string): string {
  const [, sign, whole = '', decimals = ''] = /^(-?)(\d+)(\.\d+)?$/.exec(amount) ?? [];
  if (whole === '') return amount;
  const first = whole.length % 3;
  const groups = [whole.slice(0, first), ...(whole.slice(first).match(/\d{3}/g) ?? [])].filter((group) => group !== '');
  return `${sign}${groups.join('\u202f')}${decimals}`;
}
