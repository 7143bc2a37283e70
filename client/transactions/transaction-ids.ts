import type { CallOptions } from '../http/call.js';
import { isNotModified, isTransaction, jsonOf } from '../http/forms.js';
import type { Remembered } from '../http/remembered.js';
import type { Requests } from '../http/requests.js';

/** The ids of a list. They are all that its tag covers, so a 304 is the whole answer (spec 4.3 rule 5). */
export function readIds(
  requests: Requests,
  remembered: Remembered<string, readonly number[]>,
  path: string,
  options: CallOptions,
): Promise<readonly number[]> {
  const request = () => {
    const known = remembered.get(path);
    return { method: 'GET', path, ...(known && { headers: { 'if-none-match': known.tag } }) } as const;
  };
  return requests.send(options, request, (answer) => {
    const known = remembered.get(path);
    if (isNotModified(answer, known?.tag)) return known?.value;
    if (answer.status === 304) remembered.forget(path);
    const list = jsonOf(answer);
    if (!Array.isArray(list) || !list.every(isTransaction)) return undefined;
    const ids = Object.freeze(list.map(({ transactionId }) => transactionId));
    return remembered.set(path, answer.headers.get('etag'), ids);
  });
}
