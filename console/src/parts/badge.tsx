import type { ComponentChildren } from 'preact';
import './parts.css';

export type Tone = 'good' | 'warn' | 'bad' | 'active' | 'closed' | 'plain';

/** A state in one word. The tone only repeats what the word says. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** States of payments and statuses of transactions. */
const TONES: Readonly<Record<string, Tone>> = {
  COMPLETED: 'good',
  DECLINED: 'bad',
  FAILED: 'bad',
  BLOCKED: 'bad',
  FLAGGED: 'warn',
  ON_HOLD: 'warn',
  PROCESSING: 'active',
  CANCELLED: 'closed',
};

export function StatusBadge({ status }: { status: string }) {
  return <Badge tone={TONES[status]}>{status.replace('_', ' ')}</Badge>;
}
