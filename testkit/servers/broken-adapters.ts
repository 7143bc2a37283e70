import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause } from '../time/until.js';
import {
  type Adapter,
  type AdapterReply,
  type Asked,
  anotherAmount,
  type Books,
  CONFIRMING_SOURCE,
  DECLINED_SOURCE,
  declined,
  keepingAdapter,
  move,
  noRecord,
  type PlayedAdapter,
  pending,
  succeeded,
} from './adapters.js';

export interface BrokenAdapter {
  readonly title: string;
  /** The first check that must be broken, and what it says. */
  readonly check: string;
  readonly says: RegExp;
  /** Money really moved more than once for a reference, so the sentence has to say so. */
  readonly isChargedTwice?: true;
  /** For one call: short if the adapter hangs. */
  readonly timeoutMs?: number;
  /** For a charge that is said to be at work: short if it stays at work. */
  readonly deadlineMs?: number;
  open(books: Books): BrokenPlayed;
}

/** An adapter whose payer acts if it has `play`. `restart` kills it, and starts it again. */
export type BrokenPlayed = Adapter & Partial<Pick<PlayedAdapter, 'play'>> & { readonly restart?: () => void };

/** A good adapter whose replies to charges are changed; it moved the money before. */
const replying = (change: (reply: AdapterReply) => AdapterReply | 'cut' | 'hang') => (books: Books) => {
  const kept = keepingAdapter(books);
  return {
    ...kept,
    charge: async (asked: Asked) => {
      const reply = await kept.charge(asked);
      return typeof reply === 'object' && reply.status < 300 ? change(reply) : reply;
    },
  };
};

/** A good adapter that treats a source that is declined in another way. */
const declining = (reply: (books: Books, asked: Asked) => AdapterReply) => (books: Books) => {
  const kept = keepingAdapter(books);
  return {
    ...kept,
    charge: (asked: Asked) => (asked.charge?.source === DECLINED_SOURCE ? reply(books, asked) : kept.charge(asked)),
  };
};

const lookingUp = (lookUp: (kept: Adapter, asked: Asked) => ReturnType<Adapter['lookUp']>) => (books: Books) => {
  const kept = keepingAdapter(books);
  return { ...kept, lookUp: (asked: Asked) => lookUp(kept, asked) };
};

/** Each breaks the contract of docs/reference/processor.md in one way that adapters are known to have. */
export const BROKEN_ADAPTERS: readonly BrokenAdapter[] = [
  {
    title: 'charges each repeat again',
    check: 'repeat',
    says: /its id is 'ch_2', and was 'ch_1'\. Either the payer is charged twice/,
    isChargedTwice: true,
    open: (books) => withoutMemory(books, (id) => succeeded(id)),
  },
  {
    title: 'charges each repeat again, and names no charge',
    check: 'another amount',
    says: /answered as succeeded. Either it was charged again, so that a repeat is charged twice/,
    isChargedTwice: true,
    open: (books) => withoutMemory(books, (id) => succeeded(id, true)),
  },
  {
    title: 'forgets a charge whose reply was lost',
    check: 'cut connection',
    says: /cut before the reply.*no record of it.*if money has moved, the payer is charged twice. Look for [0-9a-f-]{36}/,
    open(books) {
      const kept = keepingAdapter(books);
      return { ...kept, charge: (asked) => (asked.isToBeCut ? chargeAndForget(books, asked) : kept.charge(asked)) };
    },
  },
  {
    title: 'says that there is no record until a charge is committed',
    check: 'cut connection',
    says: /no record of it while it was still at work: later it said succeeded.*charged twice. Answer 409/,
    open: committingLate,
  },
  {
    title: 'answers a decline with 200',
    check: 'decline',
    says: /not declined: the processor answered 200.*a decline must have the status 402.*unknown for hours/,
    open: declining(() => ({ ...declined(), status: 200 })),
  },
  {
    title: 'takes a decline for a success',
    check: 'decline',
    says: /answered as succeeded.*goods leave unpaid/,
    open: declining(() => succeeded('none')),
  },
  {
    title: 'charges a declined payment when it is repeated',
    check: 'decline',
    says: /A repeat of a declined charge got another answer: succeeded.*may be charged afterwards/,
    open(books) {
      const tried = new Set<string>();
      return declining((_, asked) => {
        if (tried.has(asked.reference)) return succeeded(move(books, asked));
        tried.add(asked.reference);
        return declined();
      })(books);
    },
  },
  {
    title: 'gives a reason that is not UTF-8',
    check: 'decline',
    says: /its body is not UTF-8.*unknown for hours/,
    open: declining(() => ({
      status: 402,
      body: Buffer.from('{"status":"declined","reason":"gesch\xfctzt"}', 'latin1'),
    })),
  },
  {
    title: 'names another transaction in a repeat',
    check: 'repeat',
    says: /its transactionId is 'TXN2', and was 'TXN1'\. Either the payer is charged twice, or/,
    open(books) {
      let count = 0;
      return replying(({ status }) => {
        count += 1;
        return { status, body: { status: 'succeeded', transactionId: `TXN${count}` } };
      })(books);
    },
  },
  {
    title: 'refuses members that it does not know',
    check: 'content',
    says: /did not succeed, although one without them did: the processor answered 400.*unknown for hours.*Pass over members/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: (asked) =>
          asked.charge?.description === undefined
            ? kept.charge(asked)
            : { status: 400, body: { error: 'description' } },
      };
    },
  },
  {
    title: 'takes other content for another charge',
    check: 'content',
    says: /charged again: its id is 'ch_3', and was 'ch_2'\. The reference alone decides.*charged twice/,
    isChargedTwice: true,
    open(books) {
      const byDescription = new Map<unknown, Adapter>([[undefined, keepingAdapter(books)]]);
      const adapterOf = ({ charge }: Asked): Adapter => {
        const known = byDescription.get(charge?.description) ?? keepingAdapter(books);
        byDescription.set(charge?.description, known);
        return known;
      };
      return {
        charge: (asked) => adapterOf(asked).charge(asked),
        lookUp(asked) {
          const found = [...byDescription.values()].map((each) => each.lookUp(asked) as AdapterReply);
          return found.find(({ status }) => status === 200) ?? noRecord();
        },
      };
    },
  },
  {
    title: 'declines other content under a reference that was charged',
    check: 'content',
    says: /Other content under a reference that was charged was declined.*has paid, and would be told no/,
    open(books) {
      const kept = keepingAdapter(books);
      const descriptions = new Map<string, unknown>();
      return {
        ...kept,
        charge(asked) {
          const { reference, charge } = asked;
          if (!descriptions.has(reference)) descriptions.set(reference, charge?.description);
          return descriptions.get(reference) === charge?.description ? kept.charge(asked) : declined();
        },
      };
    },
  },
  {
    title: 'races with itself when charges arrive at once',
    check: 'twenty at once',
    says: /Of 20 charges at once with one reference, two name different charges.*overlaps.*charged twice/,
    isChargedTwice: true,
    open: (books) => racing(books, false),
  },
  {
    title: 'races with itself, and names no charge',
    check: 'two amounts at once',
    says: /1\.00 and 2\.00 EUR at once with one reference were both answered as succeeded.*overlaps.*charged twice/,
    isChargedTwice: true,
    open: (books) => racing(books, true),
  },
  {
    title: 'forgets a charge when it refuses another amount at once',
    check: 'two amounts at once',
    says: /Of two amounts at once.*was charged twice: its id is 'ch_\d+', and was 'ch_\d+'\..*overlaps.*charged twice/,
    isChargedTwice: true,
    open(books) {
      const kept = keepingAdapter(books);
      const refused = new Set<string>();
      return {
        ...kept,
        async charge(asked) {
          const isRepeat = ((await kept.lookUp(asked)) as AdapterReply).status === 200;
          const reply = (await kept.charge(asked)) as AdapterReply;
          if (reply.status === 422) refused.add(asked.reference);
          if (!isRepeat || reply.status !== 200) return reply;
          // Those with the other amount arrive meanwhile.
          await pause(100);
          return refused.has(asked.reference) ? succeeded(move(books, asked)) : reply;
        },
      };
    },
  },
  {
    title: 'answers a page of HTML',
    check: 'charge',
    says: /answered 200.*its body is 'text\/html' and no JSON.*the money has moved/,
    open: replying(() => ({ status: 200, body: '<html>Paid!</html>', headers: { 'content-type': 'text/html' } })),
  },
  {
    title: 'hangs in a charge',
    check: 'charge',
    says: /no reply came within 300 ms.*The look-up says that it succeeded/,
    timeoutMs: 300,
    open: replying(() => 'hang'),
  },
  {
    title: 'hangs in a look-up',
    check: 'look-up before a charge',
    says: /no reply came within 300 ms.*unknown for hours/,
    timeoutMs: 300,
    open: lookingUp(() => 'hang'),
  },
  {
    title: 'cuts the connection of a charge',
    check: 'charge',
    says: /no reply came \(.*The look-up says that it succeeded/,
    open: replying(() => 'cut'),
  },
  {
    title: 'ignores the amount of a repeat',
    check: 'another amount',
    says: /2\.00 EUR under a reference that was charged 1\.00 EUR was answered as succeeded.*an amount that nobody paid/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: (asked) => {
          const known = kept.lookUp(asked) as AdapterReply;
          return known.status === 200 && asked.charge?.amount === '2.00' ? known : kept.charge(asked);
        },
      };
    },
  },
  {
    title: 'answers 500 after a charge that leaves no trace',
    check: 'charge',
    says: /answered 500.*no record of it.*If money has moved, the payer is charged twice, and nobody can find/,
    open: (books) => ({
      charge: (asked) => {
        move(books, asked);
        return { status: 500, body: { error: 'fault' } };
      },
      lookUp: noRecord,
    }),
  },
  {
    title: 'redirects',
    check: 'charge',
    says: /answered 307.*redirects are not followed, so give the address that it leads to/,
    open: replying(() => ({ status: 307, headers: { location: '/elsewhere' } })),
  },
  {
    title: 'says another charset',
    check: 'media types',
    says: /its Content-Type says the charset 'iso-8859-1'/,
    open: replying((reply) => ({ ...reply, headers: { 'content-type': 'application/json; charset=iso-8859-1' } })),
  },
  {
    title: 'says that JSON is text',
    check: 'media types',
    says: /its Content-Type is 'text\/plain'/,
    open: replying((reply) => ({ ...reply, headers: { 'content-type': 'text/plain' } })),
  },
  {
    title: 'answers with an empty body',
    check: 'charge',
    says: /its body is empty.*told to try again although the money has moved/,
    open: replying(() => ({ status: 201, body: '' })),
  },
  {
    title: 'shows the last charge to every look-up',
    check: 'unknown reference',
    says: /says succeeded.*outcome of another one: goods would leave unpaid/,
    open(books) {
      const kept = keepingAdapter(books);
      return { ...kept, lookUp: (asked) => kept.lookUp({ ...asked, reference: books.moved.at(-1)?.reference ?? '' }) };
    },
  },
  {
    title: 'answers a look-up with the reference of another charge',
    check: 'look-up after a charge',
    says: /names another charge: its reference is 00000000-.*unknown for hours/,
    open: lookingUp(async (kept, asked) => {
      const reply = await kept.lookUp(asked);
      if (typeof reply !== 'object' || reply.status !== 200) return reply;
      return { status: 200, body: { ...Object(reply.body), reference: '00000000-0000-7000-8000-000000000000' } };
    }),
  },
  {
    title: 'has an empty 404, as an ingress without a route',
    check: 'look-up before a charge',
    says: /404 to a look-up without a body that is a JSON object, which proves nothing.*unknown for hours/,
    open: lookingUp(async (kept, asked) => withoutRecord(await kept.lookUp(asked), { status: 404, body: '' })),
  },
  {
    title: 'names the reference in each reply but a 404',
    check: 'unknown reference',
    says: /404 to a look-up without the reference, which earlier replies named.*not sent again/,
    open: lookingUp(async (kept, asked) =>
      withoutRecord(await kept.lookUp(asked), { ...noRecord(), headers: { 'idempotency-key': '' } }),
    ),
  },
  {
    title: 'names its contract in each reply but a 404',
    check: 'unknown reference',
    says: /404 to a look-up without the header Idempay-Contract, which earlier replies had.*not sent again/,
    open(books) {
      const kept = keepingAdapter(books);
      const [first, later] = [{ 'idempay-contract': '' }, { 'idempay-contract': '3' }];
      return {
        charge: async (asked) => ({ ...((await kept.charge(asked)) as AdapterReply), headers: later }),
        lookUp: async (asked) => ({ ...((await kept.lookUp(asked)) as AdapterReply), headers: first }),
      };
    },
  },
  {
    title: 'answers with the amount in the smallest unit',
    check: 'charge',
    says: /its amount is 100\.00 EUR, not 1\.00 EUR.*told to try again although the money has moved/,
    open: replying((reply) => ({ ...reply, body: { ...Object(reply.body), amount: '100', currency: 'eur' } })),
  },
  {
    title: 'answers each charge of another payment with the reply to the first one',
    check: 'content',
    says: /did not succeed.*names another charge: its reference is /,
    open(books) {
      const kept = keepingAdapter(books);
      let first: string | undefined;
      return {
        ...kept,
        charge: async (asked) => {
          const reply = await kept.charge(asked);
          first ??= asked.reference;
          const body = { ...Object((reply as AdapterReply).body), reference: first };
          return typeof reply === 'object' && reply.status === 200 ? { ...reply, body } : reply;
        },
      };
    },
  },
  {
    title: 'has no record of what it has charged',
    check: 'look-up after a charge',
    says: /no record of a charge that was made.*charged twice/,
    open: lookingUp(noRecord),
  },
  {
    title: 'says for ever that a charge is at work',
    check: 'look-up after a charge',
    says: /not clear: the processor answered 409 to a look-up: still at work.*unknown for hours/,
    deadlineMs: 500,
    open: lookingUp(async (kept, asked) => {
      const reply = await kept.lookUp(asked);
      return typeof reply === 'object' && reply.status === 200 ? { status: 409, body: { error: 'at work' } } : reply;
    }),
  },
  {
    title: 'refuses a repeat',
    check: 'repeat',
    says: /did not get its outcome: the processor answered 422/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: async (asked) => {
          const known = (await kept.lookUp(asked)) as AdapterReply;
          return known.status === 200 ? { status: 422, body: { error: 'duplicate' } } : kept.charge(asked);
        },
      };
    },
  },
  {
    title: 'answers a broken charge with 500',
    check: 'wrong requests',
    says: /A charge without a reference was answered with 500, not 4xx.*unknown for hours/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: (asked) => (asked.reference === '' ? { status: 500, body: { error: 'fault' } } : kept.charge(asked)),
      };
    },
  },
  {
    title: 'charges without a reference',
    check: 'wrong requests',
    says: /without a reference was answered as succeeded.*each repeat is charged again/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: (asked) => (asked.reference === '' ? succeeded(move(books, asked)) : kept.charge(asked)),
      };
    },
  },
  {
    title: 'refuses without saying why',
    check: 'wrong requests',
    says: /was refused with 400, without a JSON body that says what is wrong/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: (asked) => (asked.charge?.amount === undefined ? { status: 400, body: '' } : kept.charge(asked)),
      };
    },
  },
];

/** A good adapter with another answer to endings. */
const ending = (end: (kept: PlayedAdapter, asked: Asked) => ReturnType<Adapter['charge']>) => (books: Books) => {
  const kept = keepingAdapter(books);
  return { ...kept, end: (asked: Asked) => end(kept, asked) };
};

/** A good adapter whose reply about a pending charge is changed. */
const waiting =
  (
    change: (reply: AdapterReply, asked: Asked) => AdapterReply,
    calls: readonly (keyof Adapter)[] = ['charge', 'lookUp'],
  ) =>
  (books: Books) => {
    const kept = keepingAdapter(books);
    const changed = (call: 'charge' | 'lookUp') => async (asked: Asked) => {
      const reply = (await kept[call](asked)) as AdapterReply;
      return Object(reply.body).status === 'pending' && calls.includes(call) ? change(reply, asked) : reply;
    };
    return { ...kept, charge: changed('charge'), lookUp: changed('lookUp') };
  };

const withMembers = (reply: AdapterReply, members: object): AdapterReply => ({
  ...reply,
  body: { ...Object(reply.body), ...members },
});

/** Adapters each of which breaks a promise of contract 3 about charges that are pending or ended. */
export const BROKEN_OPEN_CHARGES: readonly BrokenAdapter[] = [
  {
    title: 'has no path for endings',
    check: 'ending before a charge',
    says: /The ending of a reference that never came is not clear: the processor answered 404 to an ending/,
    open: ending(noRecord),
  },
  {
    title: 'answers endings without the contract',
    check: 'ending before a charge',
    says: /answered 200 to an ending without Idempay-Contract: 3, which counts for nothing/,
    open: ending(async (kept, asked) => ({
      ...((await kept.end(asked)) as AdapterReply),
      headers: { 'idempay-contract': '2' },
    })),
  },
  {
    title: 'says that a reference that never came has succeeded when it is ended',
    check: 'ending before a charge',
    says: /says succeeded\. An order would be taken for paid that nobody has paid/,
    open: ending(() => succeeded('ch_0')),
  },
  {
    title: 'answers an ending with the status of a declined charge',
    check: 'ending before a charge',
    says: /answered 402 to an ending.*a decline must have the status 200/,
    open: ending(async (kept, asked) => {
      const reply = (await kept.end(asked)) as AdapterReply;
      return Object(reply.body).status === 'declined' ? { ...reply, status: 402 } : reply;
    }),
  },
  {
    title: 'charges a reference that was ended before',
    check: 'ending before a charge',
    says: /came after its ending was answered as succeeded\. The order was cancelled.*the payer is charged/,
    open: ending(async (kept, asked) => {
      const known = (await kept.lookUp(asked)) as AdapterReply;
      return known.status === 200 ? kept.end(asked) : { ...declined(), status: 200 };
    }),
  },
  {
    title: 'ends nothing for ever',
    check: 'ending before a charge',
    says: /answered 425 to an ending: still at work\. Such a payment stays open/,
    deadlineMs: 300,
    open: ending(() => ({ status: 425, body: { error: 'not yet' } })),
  },
  {
    title: 'answers an ending as declined while its charge goes on',
    check: 'ending during a charge',
    says: /whose ending was answered with declined (was answered as|says) succeeded\. The order was cancelled/,
    open(books) {
      const kept = keepingAdapter(books);
      const atWork = new Set<string>();
      return {
        ...kept,
        async charge(asked) {
          const known = (await kept.lookUp(asked)) as AdapterReply;
          if (known.status === 200 || asked.reference === '') return kept.charge(asked);
          atWork.add(asked.reference);
          await pause(100);
          atWork.delete(asked.reference);
          return kept.charge(asked);
        },
        lookUp: (asked) =>
          atWork.has(asked.reference) ? { status: 409, body: { error: 'at work' } } : kept.lookUp(asked),
        end: (asked) => (atWork.has(asked.reference) ? { ...declined(), status: 200 } : kept.end(asked)),
      };
    },
  },
  {
    title: 'says that a charge that succeeded was declined when it is ended',
    check: 'ending after a charge',
    says: /The ending of a charge that succeeded says declined.*the order would be closed/,
    open: ending(async (kept, asked) => {
      const reply = (await kept.end(asked)) as AdapterReply;
      const [isCharged] = [Object(reply.body).status === 'succeeded'];
      return isCharged && Object(reply.body).id === 'ch_1' ? { ...declined(), status: 200 } : reply;
    }),
  },
  {
    title: 'names another charge when it ends one',
    check: 'ending after a charge',
    says: /names another charge: its id is 'ch_0', and was 'ch_1'/,
    open: ending(async (kept, asked) => {
      const reply = (await kept.end(asked)) as AdapterReply;
      return Object(reply.body).id === 'ch_1' ? succeeded('ch_0') : reply;
    }),
  },
  {
    title: 'says pending without the contract',
    check: 'pending charge',
    says: /answered 202 to a charge.*must have the status 202, and the header Idempay-Contract: 3/,
    open: waiting((reply) => ({ ...reply, headers: { 'idempay-contract': '' } })),
  },
  {
    title: 'says pending with 200',
    check: 'pending charge',
    says: /answered 200 to a charge.*must have the status 202/,
    open: waiting((reply) => ({ ...reply, status: 200 })),
  },
  {
    title: 'sends the payer to a page that anybody can read',
    check: 'pending charge',
    says: /its action has a url that is neither https nor http on a loopback name.*look at the adapter/,
    open: waiting((reply) => withMembers(reply, { action: { url: 'http://bank.example/' } })),
  },
  {
    title: 'gives no time until which a charge is pending',
    check: 'pending charge',
    says: /its until is no time as RFC 3339 has it/,
    open: waiting((reply) => withMembers(reply, { until: '2026-11-29T15:00:00' })),
  },
  {
    title: 'gives the payer no time',
    check: 'pending charge',
    says: /until of a new pending charge is over already/,
    open: waiting((reply) => withMembers(reply, { until: '2020-01-01T00:00:00Z' })),
  },
  {
    title: 'declines a charge whose payer must confirm',
    check: 'pending charge',
    says: /with the confirming source and a returnUrl was declined.*would be told no/,
    open: waiting(declined),
  },
  {
    title: 'has no record of a pending charge',
    check: 'pending charge',
    says: /The look-up of a pending charge has no record of it.*nobody would find out/,
    open: waiting(noRecord, ['lookUp']),
  },
  {
    title: 'answers a look-up of a pending charge without the contract',
    check: 'pending charge',
    says: /answered 200 to a look-up without Idempay-Contract: 3, which counts for nothing/,
    open: waiting((reply) => ({ ...reply, headers: { 'idempay-contract': '2' } }), ['lookUp']),
  },
  {
    title: 'does not say which amount is pending',
    check: 'pending charge',
    says: /does not name amount and currency.*cannot be ended/,
    open: waiting((reply) => withMembers(reply, { amount: undefined, currency: undefined }), ['lookUp']),
  },
  {
    title: 'begins a pending charge again when it is repeated',
    check: 'pending charge',
    says: /A repeat of a pending charge names another one\. The payer may confirm both/,
    open(books) {
      let count = 0;
      return waiting(
        (reply) => {
          count += 1;
          return withMembers(reply, { id: `pi_${count}` });
        },
        ['charge'],
      )(books);
    },
  },
  {
    title: 'forgets a pending charge in a restart',
    check: 'restart',
    says: /pending charge after a restart has no record of it\. The payer may still confirm it/,
    open(books) {
      let isForgotten = false;
      const restart = () => {
        isForgotten = true;
      };
      const adapter = waiting((reply) => (isForgotten ? noRecord() : reply), ['lookUp'])(books);
      return { ...adapter, restart };
    },
  },
  {
    title: 'forgets an ending in a restart',
    check: 'restart',
    says: /came after its ending and a restart was answered as succeeded\. The order was cancelled/,
    open(books) {
      const kept = keepingAdapter(books);
      const ended = new Set<string>();
      return {
        ...kept,
        async charge(asked) {
          const isEnded = ended.has(asked.reference) && asked.charge?.source !== CONFIRMING_SOURCE;
          return isEnded ? declined() : kept.charge(asked);
        },
        async lookUp(asked) {
          return ended.has(asked.reference) ? { ...declined(), status: 200 } : kept.lookUp(asked);
        },
        async end(asked) {
          const known = (await kept.lookUp(asked)) as AdapterReply;
          if (known.status === 200) return kept.end(asked);
          ended.add(asked.reference);
          return { ...declined(), status: 200 };
        },
        restart: () => ended.clear(),
      };
    },
  },
  {
    title: 'declines a pending charge that was ended, and leaves its page open',
    check: 'ending a pending charge',
    says: /that was ended says succeeded\..*only when nothing that the payer was given can charge any more/,
    open: (books) => leavingOpen(books, 'end'),
  },
  {
    title: 'says that a pending charge succeeded when it is ended',
    check: 'ending a pending charge',
    says: /says succeeded, although no payer has confirmed it/,
    open: ending(async (kept, asked) => {
      const reply = (await kept.lookUp(asked)) as AdapterReply;
      return Object(reply.body).status === 'pending' ? succeeded('ch_0') : kept.end(asked);
    }),
  },
  {
    title: 'does not see that a payer has confirmed',
    check: 'payer confirms',
    says: /has confirmed a charge, and the look-up says pending, also after the deadline/,
    deadlineMs: 300,
    open: (books) => ({ ...keepingAdapter(books), play: () => {} }),
  },
  {
    title: 'declines what a payer has confirmed',
    check: 'payer confirms',
    says: /has confirmed a charge, and the look-up says declined.*would be told no/,
    open(books) {
      const kept = keepingAdapter(books);
      return { ...kept, play: (_, action) => kept.play('refuse', action) };
    },
  },
  {
    title: 'declines a charge that its payer has refused, and leaves its page open',
    check: 'payer refuses',
    says: /pending charge that was declined says succeeded\..*only when nothing that the payer was given can charge/,
    open: (books) => leavingOpen(books, 'refuse'),
  },
  {
    title: 'gives an action if no payer is present',
    check: 'without a payer',
    says: /without a returnUrl is pending with an action, which nobody would follow/,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: (asked) =>
          asked.charge?.source === CONFIRMING_SOURCE && asked.charge.returnUrl === undefined
            ? pending(asked)
            : kept.charge(asked),
      };
    },
  },
  {
    title: 'names the third contract in each reply but a decline',
    check: 'contract in replies',
    says: /do not name Idempay-Contract: 3, although others do: a charge \(402\)\./,
    open(books) {
      const kept = keepingAdapter(books);
      return {
        ...kept,
        charge: async (asked) => {
          const reply = (await kept.charge(asked)) as AdapterReply;
          return reply.status === 402 ? { ...reply, headers: { 'idempay-contract': '2' } } : reply;
        },
      };
    },
  },
];

/** Declines when it is ended, or when the payer refuses, and the payer's page charges as before. */
function leavingOpen(books: Books, by: 'end' | 'refuse'): BrokenPlayed {
  const kept = keepingAdapter(books);
  const said = new Set<string>();
  const isOpen = async (asked: Asked) => Object(((await kept.lookUp(asked)) as AdapterReply).body).status === 'pending';
  return {
    ...kept,
    async charge(asked) {
      return said.has(asked.reference) && (await isOpen(asked)) ? declined() : kept.charge(asked);
    },
    async lookUp(asked) {
      return said.has(asked.reference) && (await isOpen(asked)) ? { ...declined(), status: 200 } : kept.lookUp(asked);
    },
    async end(asked) {
      if (by !== 'end' || !(await isOpen(asked))) return kept.end(asked);
      said.add(asked.reference);
      return { ...declined(), status: 200 };
    },
    play(does, action) {
      if (by === 'refuse' && does === 'refuse') said.add((action as { page: string }).page);
      else kept.play(does, action);
    },
  };
}

const withoutRecord = (reply: Awaited<ReturnType<Adapter['lookUp']>>, other: AdapterReply) =>
  typeof reply === 'object' && reply.status === 404 ? other : reply;

function withoutMemory(books: Books, replyFor: (id: string) => AdapterReply): Adapter {
  const kept = keepingAdapter(books);
  const known = new Map<string, AdapterReply>();
  return {
    charge: (asked) => {
      if (asked.charge?.amount === undefined || asked.reference === '') return kept.charge(asked);
      const reply = replyFor(move(books, asked));
      if (!known.has(asked.reference)) known.set(asked.reference, reply);
      return reply;
    },
    lookUp: ({ reference }) => known.get(reference) ?? noRecord(),
  };
}

async function chargeAndForget(books: Books, asked: Asked): Promise<'cut'> {
  move(books, asked);
  await asked.gone;
  return 'cut';
}

/** The commit of a charge whose connection was cut comes after its second look-up. */
function committingLate(books: Books): Adapter {
  const kept = keepingAdapter(books);
  const waiting = new Map<string, { lookUps: number; readonly asked: Asked }>();
  return {
    async charge(asked) {
      if (!asked.isToBeCut) return kept.charge(asked);
      waiting.set(asked.reference, { lookUps: 0, asked });
      await asked.gone;
      return 'cut';
    },
    lookUp(asked) {
      const charge = waiting.get(asked.reference);
      if (charge) {
        charge.lookUps += 1;
        if (charge.lookUps > 2) void kept.charge(charge.asked);
      }
      return kept.lookUp(asked);
    },
  };
}

/** Looks whether it knows the reference, and charges a turn of the loop later. */
function racing(books: Books, isSilent: boolean): Adapter {
  const outcomes = new Map<string, { readonly reply: AdapterReply; readonly amount: unknown }>();
  const kept = keepingAdapter(books, isSilent);
  return {
    async charge(asked) {
      const { reference, charge } = asked;
      if (charge?.amount === undefined || reference === '') return kept.charge(asked);
      const known = outcomes.get(reference);
      if (known) return known.amount === charge.amount ? known.reply : anotherAmount();
      // Those that have arrived meanwhile find nothing either.
      for (let turn = 0; turn < 50; turn += 1) await nextTurn();
      const id = move(books, asked);
      const reply = succeeded(id, isSilent);
      if (!outcomes.has(reference)) outcomes.set(reference, { reply, amount: charge.amount });
      return reply;
    },
    lookUp: ({ reference }) => {
      const known = outcomes.get(reference);
      return known ? known.reply : noRecord();
    },
  };
}
