import { parsed } from '../http/answers.js';
import type { CallOptions } from '../http/call.js';
import type { Remembered } from '../http/remembered.js';
import type { Requests } from '../http/requests.js';
import type { Transaction } from '../representations.js';

/** The ids of a list. They are all that its tag covers, so a 304 is the whole answer (spec 4.3 rule 5). */
export function readIds(
  requests: Requests,
  remembered: Remembered<string, readonly number[]>,
  path: string,
  options: CallOptions,
): Promise<readonly number[]> {
  const known = remembered.get(path);
  const headers = known && { 'if-none-match': known.tag };
  return requests.send(options, { method: 'GET', path, ...(headers && { headers }) }, (answer) => {
    if (answer.status === 304) return known?.value;
    const list = parsed(answer.text);
    if (!Array.isArray(list)) return undefined;
    const ids = Object.freeze((list as Transaction[]).map(({ transactionId }) => transactionId));
    return remembered.set(path, answer.headers.get('etag'), ids);
  });
}
