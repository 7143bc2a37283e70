import { useEffect, useState } from 'preact/hooks';
import type { Http } from '../../http/http.js';
import { useAnswer } from '../../parts/use-answer.js';
import { isFinal, type Payment } from '../payment.js';
import { seePayment } from '../use-payment.js';
import { leftOf, type Refund } from './refund.js';
import { outcomeSentence, type RefundRequest, sendRefund } from './send-refund.js';
import { readRefunds } from './use-refunds.js';

/** `amount` is undefined as long as nobody has typed one: then it is what was left when the form was opened. */
interface Draft extends Omit<RefundRequest, 'amount'> {
  readonly amount: string | undefined;
}

const NOTHING: Draft = { name: '', amount: undefined, reason: '' };

/** The requests without a clear answer, by the key of their payment: a person who leaves the page finds them there. Forgotten with the session. */
const UNCLEAR = new WeakMap<Http, Map<string, RefundRequest>>();

/** A person decides by these. They are read when the form is opened, because the page does not follow a payment that was paid. */
export interface Basis {
  readonly payment: Payment;
  readonly refunds: readonly Refund[];
}

export interface RefundOutcome {
  readonly isMade: boolean;
  readonly sentence: string;
}

interface Following {
  /** The payment and its refunds may have changed. */
  look(): void;
  ended(outcome: RefundOutcome): void;
}

/**
 * The refund that a person asks for. From the first send until a clear answer its name and its amount cannot be changed, also if the dialog
 * was closed meanwhile, or the page was left: so a second refund is never made by mistake.
 */
export function useRefundRequest(http: Http, payment: Payment, all: readonly Refund[], { look, ended }: Following) {
  const key = payment.idempotencyKey;
  const unclear = unclearOf(http);
  const [draft, setDraft] = useState<Draft>(unclear.get(key) ?? NOTHING);
  const [isOpen, setOpen] = useState(false);
  const [isUnclear, setUnclear] = useState(unclear.has(key));
  const [isSending, setSending] = useState(false);
  /** A refund that is under way is to be sent again. */
  const [isRepeat, setRepeat] = useState(false);
  const isFixed = isUnclear || isRepeat;

  const basis = useAnswer(
    async (signal) => (isOpen ? await readBasis(http, key, signal) : undefined),
    [http, key, isOpen],
  );
  const known = [...all, ...(basis.answer?.refunds ?? [])];
  // An amount that nobody has typed is what was left when the form was opened: it must not change between the form and the last word.
  const request: RefundRequest = { ...draft, amount: draft.amount ?? leftOf(basis.answer?.payment ?? payment) };

  // The page behind the form must not contradict it.
  useEffect(() => {
    if (basis.answer && basis.answer.payment.refunded !== payment.refunded) look();
  }, [basis.answer]);

  // Recovery, or another person, may finish a refund whose answer was lost.
  const finished =
    isFixed && !isSending ? known.find((one) => one.refund.name === draft.name && isFinal(one)) : undefined;
  useEffect(() => {
    if (!finished) return;
    forget();
    setOpen(false);
    ended({ isMade: finished.state === 'COMPLETED', sentence: outcomeSentence(finished) });
  }, [finished?.idempotencyKey]);

  /** `again`: a refund that is under way. */
  function open(again?: Refund) {
    if (again) {
      const { name, reason } = again.refund;
      setDraft({ name, amount: again.amount ?? undefined, reason: reason ?? '' });
      setRepeat(true);
    }
    setOpen(true);
  }

  function close() {
    setOpen(false);
    // Nothing was sent of it here.
    if (isRepeat && !isUnclear) forget();
  }

  function forget() {
    unclear.delete(key);
    setDraft(NOTHING);
    setUnclear(false);
    setRepeat(false);
  }

  async function send(): Promise<string | undefined> {
    const sent = { ...request, reason: request.reason.trim() };
    unclear.set(key, sent);
    setDraft(sent);
    setUnclear(true);
    setSending(true);
    const result = await sendRefund(http, payment, sent, isFixed);
    setSending(false);
    look();
    if (result.kind === 'unclear') return result.sentence;
    unclear.delete(key);
    setUnclear(false);
    setRepeat(false);
    if (result.kind === 'refused') return result.sentence;
    forget();
    setOpen(false);
    ended({ isMade: true, sentence: result.sentence });
    return undefined;
  }

  return {
    ...{ request, basis, isOpen, isFixed, open, close, look, send },
    others: othersIn(known, draft.name),
    change: (changes: Partial<RefundRequest>) => setDraft({ ...draft, ...changes }),
  };
}

function unclearOf(http: Http): Map<string, RefundRequest> {
  const kept = UNCLEAR.get(http) ?? new Map<string, RefundRequest>();
  UNCLEAR.set(http, kept);
  return kept;
}

async function readBasis(http: Http, key: string, signal: AbortSignal): Promise<Basis> {
  const [{ payment }, refunds] = await Promise.all([seePayment(http, key, signal), readRefunds(http, key, signal)]);
  return { payment, refunds };
}

/** Refunds of other names that are under way. The first record of a key counts, which the page follows. */
function othersIn(known: readonly Refund[], name: string): readonly Refund[] {
  const byKey = new Map(known.toReversed().map((refund) => [refund.idempotencyKey, refund]));
  return [...byKey.values()].filter((refund) => !isFinal(refund) && refund.refund.name !== name);
}
