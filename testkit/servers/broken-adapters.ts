import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause } from '../time/until.js';
import {
  type Adapter,
  type AdapterReply,
  type Asked,
  anotherAmount,
  type Books,
  DECLINED_SOURCE,
  declined,
  keepingAdapter,
  move,
  noRecord,
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
  open(books: Books): Adapter;
}

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
      const [first, later] = [{ 'idempay-contract': '' }, { 'idempay-contract': '2' }];
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
