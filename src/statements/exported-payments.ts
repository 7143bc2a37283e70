import type { SettledPayment } from './comparison.js';
import { linesOf } from './lines.js';
import { StatementError } from './statement-error.js';

/** As behind a proxy that speaks HTTP/1.0, where a connection that was cut looks like one that has ended. */
const CUT = 'The payments of the service did not arrive whole: their export was cut on its way. Compare again.';

/** What an export holds, some at a time. Throws where it does not end with the line that says how many payments it has. */
export async function* exportedPayments(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<readonly SettledPayment[], void, void> {
  let count = 0;
  let end: { readonly count: number } | undefined;
  for await (const lines of linesOf(bytes)) {
    const payments: SettledPayment[] = [];
    for (const { text } of lines) {
      if (end) throw new StatementError(CUT);
      const line = parsed(text);
      if ('end' in line) end = line;
      else payments.push(line);
    }
    count += payments.length;
    yield payments;
  }
  if (end?.count !== count) throw new StatementError(CUT);
}

function parsed(line: string): SettledPayment | { readonly end: true; readonly count: number } {
  try {
    return JSON.parse(line);
  } catch {
    throw new StatementError(CUT);
  }
}
