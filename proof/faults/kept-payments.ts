import type { KeptPayment } from '../../testkit/checkers/payment-evidence.js';
import type { HttpPool } from '../../testkit/client/http-pool.js';

const PAGE = 500;
/** Of a page, on a busy machine. */
const PATIENCE_MS = 30_000;
const LINK = /^<([^>]+)>; rel="next"$/;

/** Every payment that a service keeps, through all pages of the list. */
export async function keptPayments(pool: HttpPool): Promise<KeptPayment[]> {
  const found: KeptPayment[] = [];
  let path: string | undefined = `/api/payments?limit=${PAGE}`;
  while (path !== undefined) {
    const answer = await pool.ask({ method: 'GET', path }, PATIENCE_MS);
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status} ${answer.failure} ${answer.text}`);
    found.push(...(JSON.parse(answer.text) as KeptPayment[]));
    path = LINK.exec(answer.header('link') ?? '')?.[1];
  }
  return found;
}
