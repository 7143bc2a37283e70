/** How the processor treats its requests, for a test or a demonstration. A rate is from 0 to 1. */
export interface Behaviour {
  /** Before the charge is logged: until then nothing is charged. */
  readonly latencyMs: number;
  /** After the charge is logged, before the reply. */
  readonly replyLatencyMs: number;
  /** The part of the charges and refunds that did not fail which is declined: an outcome like any other. */
  readonly declineRate: number;
  /** Answered 500, and nothing charged. */
  readonly failRate: number;
  /** The part of the charges, endings and refunds that is carried out and logged, and whose connection is then cut without a reply. */
  readonly lostReplyRate: number;
  /** The part that waits for its payer, of the charges with a `returnUrl` that neither fail nor are declined. */
  readonly pendingRate: number;
  /** A charge that waits this long for its payer is declined. A refund that is pending for so long has succeeded. */
  readonly pendingMs: number;
  /** The part of the refunds, neither failed nor declined, that is pending. */
  readonly refundPendingRate: number;
  /** Every ending is answered with this status, and nothing ended: 409 cannot be ended, 425 not known yet. */
  readonly endWith: number | null;
  /** When false, every charge and refund that arrives counts, also under a known reference: a processor that does not deduplicate. */
  readonly deduplicate: boolean;
  /** Every request about charges and refunds is answered with this status, and nothing charged: a wrong set-up or an outage. */
  readonly refuseWith: number | null;
}

export const USUAL_BEHAVIOUR: Behaviour = Object.freeze({
  latencyMs: 0,
  replyLatencyMs: 0,
  declineRate: 0,
  failRate: 0,
  lostReplyRate: 0,
  pendingRate: 0,
  pendingMs: 3_600_000,
  refundPendingRate: 0,
  endWith: null,
  deduplicate: true,
  refuseWith: null,
});

/** `setTimeout` fires at once for anything longer. */
const MAX_TIMER_MS = 2_147_483_647;
/** A year; no timer waits for it. */
const MAX_WAIT_MS = 366 * 86_400_000;

interface Rule {
  readonly words: string;
  accepts(value: unknown): boolean;
}

const DELAY: Rule = {
  words: `a whole number from 0 to ${MAX_TIMER_MS}`,
  accepts: (value) => isWholeNumber(value, 0, MAX_TIMER_MS),
};
const RATE: Rule = {
  words: 'a number from 0 to 1',
  accepts: (value) => typeof value === 'number' && value >= 0 && value <= 1,
};
const WAIT: Rule = {
  words: `a whole number from 1 to ${MAX_WAIT_MS}`,
  accepts: (value) => isWholeNumber(value, 1, MAX_WAIT_MS),
};
const SWITCH: Rule = { words: 'true or false', accepts: (value) => typeof value === 'boolean' };
const REFUSAL: Rule = {
  words: 'null or a status from 400 to 599',
  accepts: (value) => value === null || isWholeNumber(value, 400, 599),
};

const END: Rule = { words: 'null, 409 or 425', accepts: (value) => [null, 409, 425].includes(value as null | number) };

const RULES: Readonly<Record<keyof Behaviour, Rule>> = {
  latencyMs: DELAY,
  replyLatencyMs: DELAY,
  declineRate: RATE,
  failRate: RATE,
  lostReplyRate: RATE,
  pendingRate: RATE,
  pendingMs: WAIT,
  refundPendingRate: RATE,
  endWith: END,
  deduplicate: SWITCH,
  refuseWith: REFUSAL,
};

/** The rule that `value` breaks as the member `name`; undefined when it breaks none. */
export function ruleBrokenBy(name: keyof Behaviour, value: unknown): string | undefined {
  return RULES[name].accepts(value) ? undefined : RULES[name].words;
}

/** The behaviour changed by a patch, or one sentence for each member that is unknown or has a bad value. */
export function changeBehaviour(
  behaviour: Behaviour,
  patch: unknown,
): { readonly changed: Behaviour } | { readonly problems: readonly string[] } {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) {
    return { problems: ['send a JSON object with the members to change'] };
  }
  const problems = Object.entries(patch).flatMap(([name, value]) => {
    if (!isMember(name)) return [`'${name}' is unknown; there are ${Object.keys(RULES).join(', ')}`];
    const rule = ruleBrokenBy(name, value);
    return rule === undefined ? [] : [`'${name}' must be ${rule}`];
  });
  return problems.length > 0 ? { problems } : { changed: Object.freeze({ ...behaviour, ...patch }) };
}

function isMember(name: string): name is keyof Behaviour {
  return Object.hasOwn(RULES, name);
}

function isWholeNumber(value: unknown, least: number, most: number): boolean {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}
