import type { PaymentRecord, Selection } from '../ports/payment-history.js';

/** A sum as a count of the smallest unit that was seen, so that it is exact. */
interface Sum {
  readonly units: bigint;
  readonly decimals: number;
}

/**
 * The content of an export's last line, about the lines before it. An export without this line is not whole: behind a proxy that speaks
 * HTTP/1.0, a connection that is cut looks like one that has ended.
 */
export class ExportTotals {
  private count = 0;
  private readonly sums = new Map<string, Sum>();
  private readonly refundSums = new Map<string, Sum>();

  /** `kind`: of the operations that the export has; payments, if it is omitted. */
  constructor(private readonly kind: Selection['kind'] = 'payment') {}

  add(payments: readonly PaymentRecord[]): void {
    this.count += payments.length;
    for (const payment of payments) {
      if (payment.state !== 'COMPLETED') continue;
      const { currency, amount, refund } = payment;
      const sums = refund ? this.refundSums : this.sums;
      sums.set(currency, plus(sums.get(currency), sumOf(amount)));
    }
  }

  /** The text of the line, without its end. Only COMPLETED rows have moved money, so only they are summed. */
  json(): string {
    const refundSums = this.kind === 'payment' ? undefined : inOrder(this.refundSums);
    return JSON.stringify({ end: true, count: this.count, sums: inOrder(this.sums), refundSums });
  }
}

function inOrder(sums: ReadonlyMap<string, Sum>): Readonly<Record<string, string>> {
  const currencies = [...sums].sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(currencies.map(([currency, sum]) => [currency, textOf(sum)]));
}

function sumOf(amount: string): Sum {
  const [whole = '', fraction = ''] = amount.split('.');
  return { units: BigInt(whole + fraction), decimals: fraction.length };
}

/** Amounts of a currency have the same decimals, unless the table of currencies changed between two payments. */
function plus(sum: Sum | undefined, more: Sum): Sum {
  if (!sum) return more;
  const decimals = Math.max(sum.decimals, more.decimals);
  return { units: scaled(sum, decimals) + scaled(more, decimals), decimals };
}

function scaled({ units, decimals }: Sum, to: number): bigint {
  return units * 10n ** BigInt(to - decimals);
}

function textOf({ units, decimals }: Sum): string {
  const digits = units.toString().padStart(decimals + 1, '0');
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}
