/**
 * An amount as it is kept, grouped for the reader's locale. It stays text: a number of JavaScript could not hold each amount
 * exactly, and `Intl.NumberFormat` takes exact text. All decimals that are there are shown, and no more.
 */
export function Money({ amount, currency }: { amount: string | number | null; currency?: string | null }) {
  if (amount === null) return <span class="muted">–</span>;
  return (
    <span class="money" title={currency ? `${amount} ${currency}` : String(amount)}>
      {amountText(String(amount))}
      {currency && <span class="muted"> {currency}</span>}
    </span>
  );
}

export function amountText(amount: string): string {
  const [, decimals = ''] = /^-?\d+(?:\.(\d+))?$/.exec(amount) ?? [undefined];
  if (!/^-?\d+(\.\d+)?$/.test(amount)) return amount;
  const format = new Intl.NumberFormat(undefined, {
    minimumFractionDigits: decimals.length,
    maximumFractionDigits: decimals.length,
  });
  return format.format(amount as Intl.StringNumericLiteral);
}
