import {
  type Adapter,
  type AdapterReply,
  type Asked,
  type Books,
  declined,
  giveBack,
  keepingAdapter,
  noRecord,
  succeeded,
} from './adapters.js';
import type { BrokenAdapter, BrokenPlayed } from './broken-adapters.js';

type Kept = ReturnType<typeof keepingAdapter>;
type Changed = Partial<Pick<Adapter, 'refund' | 'lookUpRefund'>> & { readonly restart?: () => void };

/** A good adapter whose refunds are changed. */
const refunding =
  (change: (kept: Kept, books: Books) => Changed) =>
  (books: Books): BrokenPlayed => {
    const kept = keepingAdapter(books);
    return { ...kept, ...change(kept, books) };
  };

const ofMade = (change: (reply: AdapterReply) => AdapterReply) => async (asked: Asked, ask: Adapter['lookUp']) => {
  const reply = (await ask(asked)) as AdapterReply;
  return reply.status === 200 ? change(reply) : reply;
};
const refundingWith = (change: (reply: AdapterReply) => AdapterReply) =>
  refunding((kept) => ({ refund: (asked) => ofMade(change)(asked, kept.refund) }));
const lookingUpWith = (change: (reply: AdapterReply) => AdapterReply) =>
  refunding((kept) => ({ lookUpRefund: (asked) => ofMade(change)(asked, kept.lookUpRefund) }));

/** Gives back at each request, and names a new refund. Its look-up has the first one. */
const again = (books: Books, asked: Asked, ids: string[]) => {
  giveBack(books, asked);
  ids.push(asked.reference);
  return succeeded(`re_${ids.length}`);
};

export const BROKEN_REFUNDS: readonly BrokenAdapter[] = [
  {
    title: 'gives back each time that a refund is sent',
    check: 'refund',
    says: /A repeat of a refund names another refund: its id is 're_2', and was 're_1'\. The payer gets the money back twice/,
    open: refunding((_, books) => {
      const ids: string[] = [];
      return {
        refund: (asked) => again(books, asked, ids),
        lookUpRefund: ({ reference }) =>
          ids.includes(reference) ? succeeded(`re_${ids.indexOf(reference) + 1}`) : noRecord(),
      };
    }),
  },
  {
    title: 'answers refunds without the contract',
    check: 'refund',
    says: /answered 200 to a refund without Idempay-Contract: 3, which counts for nothing about a refund/,
    open: refundingWith((reply) => ({ ...reply, headers: { 'idempay-contract': '2' } })),
  },
  {
    title: 'answers the look-up of a refund without the contract',
    check: 'refund',
    says: /The look-up of a refund is not clear: .* 200 to a look-up of a refund without Idempay-Contract: 3/,
    open: lookingUpWith((reply) => ({ ...reply, headers: { 'idempay-contract': '' } })),
  },
  {
    title: 'names the whole charge as what was given back',
    check: 'refund',
    says: /names another refund: its amount is 1\.00 EUR, not 0\.50 EUR/,
    open: refundingWith(({ body, ...reply }) => ({
      ...reply,
      body: { ...(body as object), amount: '1.00', currency: 'EUR' },
    })),
  },
  {
    title: 'declines a refund with the status of a success',
    check: 'refund',
    says: /a decline must have the status 402/,
    open: refunding(() => ({ refund: () => ({ ...declined(), status: 200 }) })),
  },
  {
    title: 'says with 200 that a refund is pending',
    check: 'refund',
    says: /a pending refund must have the status 202, and the header Idempay-Contract: 3/,
    open: refundingWith((reply) => ({ ...reply, body: { status: 'pending', until: '2099-01-01T00:00:00Z' } })),
  },
  {
    title: 'has no record of a refund that it made',
    check: 'refund',
    says: /The look-up of a refund has no record of a refund that was made\. Idempay would send it again/,
    open: lookingUpWith(noRecord),
  },
  {
    title: 'says that a refund that it made was declined',
    check: 'refund',
    says: /The look-up of a refund says declined.*in another way/,
    open: lookingUpWith(() => ({ ...declined(), status: 200 })),
  },
  {
    title: 'refuses a repeat of a refund',
    check: 'refund',
    says: /A repeat of a refund is not clear: the processor answered 422/,
    open: refunding((kept) => {
      const made = new Set<string>();
      return {
        refund(asked) {
          if (made.has(asked.reference)) return { status: 422, body: { error: 'known' } };
          made.add(asked.reference);
          return kept.refund(asked);
        },
      };
    }),
  },
  {
    title: 'forgets a refund whose reply was lost',
    check: 'refund with a lost reply',
    says: /The reply to a refund was lost, and the look-up has no record of it.*if money was given back, the payer gets/,
    open: refunding((kept, books) => ({
      refund(asked) {
        if (!asked.isToBeCut) return kept.refund(asked);
        giveBack(books, asked);
        return 'hang';
      },
    })),
  },
  {
    title: 'gives a refund back again whose reply was lost',
    check: 'refund with a lost reply',
    says: /A repeat of a refund names another refund.*gets the money back twice/,
    open: refunding((kept, books) => {
      const cut = new Set<string>();
      return {
        refund(asked) {
          if (asked.isToBeCut) cut.add(asked.reference);
          if (asked.isToBeCut || !cut.has(asked.reference)) return kept.refund(asked);
          giveBack(books, asked);
          return succeeded('re_again');
        },
      };
    }),
  },
  {
    title: 'forgets its refunds in a restart',
    check: 'refund after a restart',
    says: /The look-up of a refund after a restart has no record of a refund that was made/,
    open: refunding((kept) => {
      const known = new Set<string>();
      return {
        refund(asked) {
          known.add(asked.reference);
          return kept.refund(asked);
        },
        lookUpRefund: (asked) => (known.has(asked.reference) ? kept.lookUpRefund(asked) : noRecord()),
        restart: () => known.clear(),
      };
    }),
  },
  {
    title: 'gives a refund back again after a restart',
    check: 'refund after a restart',
    says: /A repeat of a refund after a restart names another refund: its id is 're_again'.*Search the refunds/,
    open: refunding((kept, books) => {
      const made = new Set<string>();
      const old = new Set<string>();
      return {
        refund(asked) {
          made.add(asked.reference);
          if (!old.has(asked.reference)) return kept.refund(asked);
          giveBack(books, asked);
          return succeeded('re_again');
        },
        restart: () => {
          for (const reference of made) old.add(reference);
        },
      };
    }),
  },
  {
    title: 'knows one refund of a charge',
    check: 'two refunds of a charge',
    says: /under another reference, names the first one \(re_.*would never get the second part back/,
    open: refunding((kept) => {
      const first = new Map<unknown, string>();
      return {
        async refund(asked) {
          const charge = asked.charge?.charge;
          const reference = first.get(charge) ?? asked.reference;
          first.set(charge, reference);
          return kept.refund({ ...asked, reference });
        },
      };
    }),
  },
  {
    title: 'makes one refund of a charge',
    check: 'two refunds of a charge',
    says: /The rest of a charge, under another reference, was declined \(No cover\.\)/,
    open: refunding((kept) => {
      const first = new Map<unknown, string>();
      return {
        refund(asked) {
          const charge = asked.charge?.charge;
          if (!first.has(charge)) first.set(charge, asked.reference);
          return first.get(charge) === asked.reference ? kept.refund(asked) : declined();
        },
      };
    }),
  },
  {
    title: 'gives back more than was charged',
    check: 'more than was charged',
    says: /of a charge that was given back before, was answered as succeeded\. More is given back than was charged/,
    open: refunding((_, books) => {
      const made = new Set<string>();
      return {
        refund(asked) {
          if (!made.has(asked.reference)) giveBack(books, asked);
          made.add(asked.reference);
          return succeeded(`re_${asked.reference}`);
        },
        lookUpRefund: ({ reference }) => (made.has(reference) ? succeeded(`re_${reference}`) : noRecord()),
      };
    }),
  },
  {
    title: 'refuses what is too much, and does not decline it',
    check: 'more than was charged',
    says: /was not declined: the processor answered 422 to a refund.*Answer 402 with a reason/,
    open: refunding((kept) => ({
      async refund(asked) {
        const reply = (await kept.refund(asked)) as AdapterReply;
        return reply.status === 402 ? { status: 422, body: { error: 'too much' } } : reply;
      },
    })),
  },
  {
    title: 'gives back what was never charged',
    check: 'refund of no charge',
    says: /A refund of a reference that was never charged was answered as succeeded\. Money that was never taken/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        async refund(asked) {
          const known = (await kept.lookUp({ ...asked, reference: String(asked.charge?.charge) })) as AdapterReply;
          return known.status === 404 ? succeeded(giveBack(books, asked)) : kept.refund(asked);
        },
      };
    },
  },
  {
    title: 'says of a refund that never came that it was made',
    check: 'refund of no charge',
    says: /The look-up of a refund that never came says succeeded/,
    open: refunding((kept) => ({
      async lookUpRefund(asked) {
        const reply = (await kept.lookUpRefund(asked)) as AdapterReply;
        return reply.status === 404 ? succeeded('re_any') : reply;
      },
    })),
  },
];
