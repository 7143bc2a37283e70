import { useState } from 'preact/hooks';
import type { Http } from '../../http/http.js';
import { isFinal, type Payment } from '../payment.js';
import { leftOf, type Refund } from './refund.js';
import { type RefundRequest, sendRefund } from './send-refund.js';

/** `amount` is undefined as long as nobody has typed one: then it is what is left. */
interface Draft extends Omit<RefundRequest, 'amount'> {
  readonly amount: string | undefined;
}

const NOTHING: Draft = { name: '', amount: undefined, reason: '' };

interface Following {
  /** The payment and its refunds may have changed. */
  look(): void;
  made(sentence: string): void;
}

/**
 * The refund that a person asks for. From the first send until a clear answer its name and its amount cannot be changed, also if the dialog
 * was closed meanwhile: so a second refund is never made by mistake.
 */
export function useRefundRequest(http: Http, payment: Payment, all: readonly Refund[], { look, made }: Following) {
  const [draft, setDraft] = useState(NOTHING);
  const [isOpen, setOpen] = useState(false);
  const [isUnclear, setUnclear] = useState(false);
  const request: RefundRequest = { ...draft, amount: draft.amount ?? leftOf(payment) };
  /** A refund that is under way is to be sent again. */
  const [isRepeat, setRepeat] = useState(false);
  // Recovery may have finished it.
  const isKnown = all.some((refund) => refund.refund.name === draft.name && isFinal(refund));
  const isFixed = (isUnclear || isRepeat) && !isKnown;

  /** `again`: a refund that is under way. */
  function open(again?: Refund) {
    if (again) {
      const { name, reason } = again.refund;
      setDraft({ name, amount: again.amount ?? undefined, reason: reason ?? '' });
      setRepeat(true);
    } else if (isUnclear && isKnown) {
      forget();
    }
    setOpen(true);
  }

  function close() {
    setOpen(false);
    // Nothing was sent of it here.
    if (isRepeat && !isUnclear) forget();
  }

  function forget() {
    setDraft(NOTHING);
    setUnclear(false);
    setRepeat(false);
  }

  async function send(): Promise<string | undefined> {
    const sent = { ...request, reason: request.reason.trim() };
    setDraft(sent);
    setUnclear(true);
    const result = await sendRefund(http, payment, sent);
    look();
    if (result.kind === 'unclear') return result.sentence;
    setUnclear(false);
    setRepeat(false);
    if (result.kind === 'refused') return result.sentence;
    forget();
    setOpen(false);
    made(result.sentence);
    return undefined;
  }

  return {
    ...{ request, isOpen, isFixed, open, close, send },
    others: all.filter((refund) => !isFinal(refund) && refund.refund.name !== draft.name),
    change: (changes: Partial<RefundRequest>) => setDraft({ ...draft, ...changes }),
  };
}
