import type { SettledPayment } from './differences.js';
import { linesOf } from './lines.js';
import { StatementError } from './statement-error.js';

/** This happens behind a proxy that speaks HTTP/1.0: a connection that was cut looks like one that has ended. */
const CUT = 'The payments of the service did not arrive whole: their export was cut on its way.';

/**
 * The payments of an export, some at a time. Throws if it does not end with the line that says how many payments it has; `advice`: the next
 * step then.
 */
export async function* exportedPayments(
  bytes: AsyncIterable<Uint8Array>,
  advice = 'Compare again.',
): AsyncGenerator<readonly SettledPayment[], void, void> {
  const cut = () => new StatementError(`${CUT} ${advice}`);
  let count = 0;
  let end: { readonly count: number } | undefined;
  for await (const lines of linesOf(bytes)) {
    const payments: SettledPayment[] = [];
    for (const { text } of lines) {
      const line = end ? undefined : parsed(text);
      if (!line) throw cut();
      if ('end' in line) end = line;
      else payments.push(line);
    }
    count += payments.length;
    yield payments;
  }
  if (end?.count !== count) throw cut();
}

/** Undefined for a part of a line. */
function parsed(line: string): SettledPayment | { readonly end: true; readonly count: number } | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
