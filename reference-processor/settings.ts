import { type Behaviour, ruleBrokenBy, USUAL_BEHAVIOUR } from './behaviour.js';

/** The environment, read once. All are optional; an empty one counts as unset. */
export interface Settings {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Path of the charge log; its folder is made. */
  readonly chargeLog: string;
  readonly behaviour: Behaviour;
}

const BEHAVIOUR_VARIABLES: Readonly<Record<keyof Behaviour, string>> = {
  latencyMs: 'PROCESSOR_LATENCY_MS',
  replyLatencyMs: 'PROCESSOR_REPLY_LATENCY_MS',
  declineRate: 'PROCESSOR_DECLINE_RATE',
  failRate: 'PROCESSOR_FAIL_RATE',
  lostReplyRate: 'PROCESSOR_LOST_REPLY_RATE',
  pendingRate: 'PROCESSOR_PENDING_RATE',
  pendingMs: 'PROCESSOR_PENDING_MS',
  refundPendingRate: 'PROCESSOR_REFUND_PENDING_RATE',
  endWith: 'PROCESSOR_END_WITH',
  deduplicate: 'PROCESSOR_DEDUPLICATE',
  refuseWith: 'PROCESSOR_REFUSE_WITH',
};

/** The environment is unusable; the message has one line for each variable that is wrong. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  constructor(readonly problems: readonly string[]) {
    super(`The settings cannot be used:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/** Reads and checks all settings at once. Throws SettingsError with every problem found, not only the first. */
export function readSettings(environment: Readonly<Record<string, string | undefined>>): Settings {
  const problems: string[] = [];
  const text = (name: string) => environment[name]?.trim() || undefined;

  const port = text('PROCESSOR_PORT') ?? '8090';
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    problems.push(`PROCESSOR_PORT must be a whole number from 0 to 65535, not '${port}'`);
  }

  const behaviour: Record<string, unknown> = { ...USUAL_BEHAVIOUR };
  for (const [member, variable] of Object.entries(BEHAVIOUR_VARIABLES) as [keyof Behaviour, string][]) {
    const given = text(variable);
    if (given === undefined) continue;
    behaviour[member] = valueFrom(given);
    const rule = ruleBrokenBy(member, behaviour[member]);
    if (rule !== undefined) problems.push(`${variable} must be ${rule}, not '${given}'`);
  }

  if (problems.length > 0) throw new SettingsError(problems);
  return Object.freeze({
    host: text('PROCESSOR_HOST') ?? '127.0.0.1',
    port: Number(port),
    chargeLog: text('CHARGE_LOG') ?? './data/charges.ndjson',
    // Every member was checked above, or is the default.
    behaviour: Object.freeze(behaviour) as unknown as Behaviour,
  });
}

/** The value that a text stands for; a text that stands for none stays one, which no rule accepts. */
function valueFrom(text: string): unknown {
  if (/^(\d+|\d*\.\d+)$/.test(text)) return Number(text);
  const words: Readonly<Record<string, unknown>> = { true: true, false: false, null: null };
  return Object.hasOwn(words, text) ? words[text] : text;
}
