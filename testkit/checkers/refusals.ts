import { type Disturbance, PROCESSOR_REPLIES, wasDisturbed } from '../history/disturbances.js';
import { PROMISED_ANSWERS, type Refusal, type Violation } from '../history/history.js';
import { CLAIMED_TEXT, type KeyHistory } from '../history/payments.js';

/** Time for every process to reconnect after a disturbance ended. */
const RECONNECTED_MS = 3_000;
/** A busy machine notices this long after the connections of a process broke that the process has ended by itself. */
const NOTICED_MS = 2_000;
/** A request that took this long may have missed a deadline of its process (900 ms for Redis): the machine was too slow for it. */
const DEADLINE_MS = 850;

/** By a key, or by a reference. */
const PAYMENT = /^POST \/api\/payment(\?|$)/;

/** The servers that an answer needs besides its own process; the first line that fits. Reads by id and lists do without Redis. */
const NEEDS: readonly (readonly [request: RegExp, needs: readonly string[]])[] = [
  [PAYMENT, ['redis', 'postgres', 'disk', 'processor']],
  [/^(GET|POST) \/api\/transactions/, ['postgres', 'disk']],
  [/^GET \/api\/server-generated\/generate-key$/, ['redis', 'disk']],
  [/./, ['redis', 'postgres', 'disk']],
];

export interface RefusalEvidence {
  readonly refusals: readonly Refusal[];
  readonly keys: readonly KeyHistory[];
  readonly disturbances: readonly Disturbance[];
  /** From this number of payments on, one process refuses first payments (rule P16). */
  readonly maxInFlight?: number;
}

/** Every 503 and every refused or cut connection needs a reason: a disturbance of this process or of something the request needs. */
export function checkRefusals(evidence: RefusalEvidence): Violation[] {
  const unexcused = evidence.refusals.filter((refusal) => !hasReason(refusal, evidence));
  return unexcused.map((refusal) => ({
    rule: PROMISED_ANSWERS,
    subject: refusal.key ?? refusal.what,
    what: `${refusal.status || refusal.failure} at ${refusal.to}, and nothing that it needs was disturbed`,
    history: [refusal],
  }));
}

function hasReason(refusal: Refusal, { keys, disturbances, maxInFlight = Infinity }: RefusalEvidence): boolean {
  const { what, to, key, status, text, sentAt, endedAt } = refusal;
  if (status !== 503) return wasDisturbed(disturbances, [to], sentAt, endedAt + NOTICED_MS);
  const needs = NEEDS.find(([request]) => request.test(what))?.[1] ?? [];
  // A payment that was not sent when the processor was down, or failed a look-up, stays unsent until a process reaches the processor.
  const history = text.includes(CLAIMED_TEXT) && keys.find((each) => each.key === key);
  const [since, of] = history ? [history.issuedAt, [...needs, PROCESSOR_REPLIES]] : [sentAt, needs];
  const isInFlight = (each: KeyHistory['exchanges'][number]) =>
    each.what === 'pay' && each.to === to && each.sentAt <= endedAt && each.endedAt >= sentAt;
  return (
    endedAt - sentAt >= DEADLINE_MS ||
    wasDisturbed(disturbances, [to, ...of], since - RECONNECTED_MS, endedAt + NOTICED_MS) ||
    (PAYMENT.test(what) && keys.flatMap(({ exchanges }) => exchanges.filter(isInFlight)).length > maxInFlight)
  );
}
