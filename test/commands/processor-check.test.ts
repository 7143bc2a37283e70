import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CONTRACT } from '#idempay/commands/processor-check/contract.js';
import { OPEN_CHARGES } from '#idempay/commands/processor-check/open-charges.js';
import {
  type CheckedPayment,
  type CheckedRefund,
  openProbe,
  type ProbeSettings,
  sendAndLoseReply,
} from '#idempay/commands/processor-check/probe.js';
import { REFUNDS } from '#idempay/commands/processor-check/refunds.js';
import { type Check, runChecks } from '#idempay/commands/processor-check/run-checks.js';
import { type ProcessorLocation, readProcessorUrl } from '#idempay/payments/processors/processor-url.js';
import { mayBeGenerated } from '#idempay/payments/values/idempotency-key.js';
import { isOfCheck } from '#idempay/statements/ids.js';
import { openStripeEnvironment, type StripeEnvironment } from '../../testkit/deployments/stripe-environment.js';
import { FULL_OUTPUT, startCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import {
  type Adapter,
  type AdapterReply,
  type Asked,
  type Books,
  CONFIRMING_SOURCE,
  DECLINED_SOURCE,
  declined,
  keepingAdapter,
  move,
  serveAdapter,
} from '../../testkit/servers/adapters.js';
import { BROKEN_ADAPTERS, BROKEN_OPEN_CHARGES, type BrokenPlayed } from '../../testkit/servers/broken-adapters.js';
import { BROKEN_REFUNDS } from '../../testkit/servers/broken-refunds.js';
import { startByteServer } from '../../testkit/servers/processor-servers.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { pause } from '../../testkit/time/until.js';

/** Longer than any machine takes for a charge, so that a connection is cut with the first byte of the reply. */
const AT_REPLY_MS = 20_000;
const MONEY = { amount: '1.00', currency: 'EUR' };

interface Result {
  readonly checks: readonly Check[];
  readonly payments: readonly CheckedPayment[];
  readonly announced: readonly string[];
  readonly refunds: readonly CheckedRefund[];
  readonly refundsAnnounced: readonly string[];
}

/** Runs the contract in this process. */
async function check(url: string, changed: Partial<ProbeSettings> = {}): Promise<Result> {
  const announced: string[] = [];
  const refundsAnnounced: string[] = [];
  const probe = openProbe({
    location: readProcessorUrl(url) as ProcessorLocation,
    money: MONEY,
    timeoutMs: 20_000,
    deadlineMs: 20_000,
    leastCutMs: AT_REPLY_MS,
    leastWatchMs: 1_000,
    announce: async ({ reference }) => announced.push(reference),
    announceRefund: async ({ reference }) => refundsAnnounced.push(reference),
    ...changed,
  });
  try {
    const checks: Check[] = [];
    for await (const each of runChecks(CONTRACT, probe)) checks.push(each);
    return { checks, payments: probe.payments, announced, refunds: probe.refunds, refundsAnnounced };
  } finally {
    await probe.close();
  }
}

async function checkAdapter(adapter: BrokenPlayed, changed: Partial<ProbeSettings> = {}): Promise<Result> {
  const server = await serveAdapter(adapter);
  const { play } = adapter;
  const sources = { decliningSource: DECLINED_SOURCE, confirmingSource: CONFIRMING_SOURCE };
  const acts = {
    restart: async () => void adapter.restart?.(),
    payer: play && (async (does: 'confirm' | 'refuse', action: unknown) => void play(does, action)),
  } as Pick<ProbeSettings, 'restart' | 'payer'>;
  try {
    return await check(server.url, { ...sources, ...acts, leastCutMs: 50, ...changed });
  } finally {
    await server.close();
  }
}

const verdicts = ({ checks }: Result) => Object.fromEntries(checks.map((each) => [each.check, each.verdict]));
const notKept = ({ checks }: Result) => checks.filter(({ verdict }) => verdict !== 'kept');
/** The checks that are skipped for an adapter of an earlier contract. */
const OF_REFUNDS = REFUNDS.map((row) => row.check);
const OF_CONTRACT_3 = [...OPEN_CHARGES.map((row) => row.check), ...OF_REFUNDS, 'contract in replies'];
const notKeptOfEarlier = (result: Result) => notKept(result).filter((each) => !OF_CONTRACT_3.includes(each.check));

describe('an adapter that keeps the contract', () => {
  it('is found to keep all of it, and each reference is charged once', async () => {
    const books: Required<Books> = { moved: [], givenBack: [] };
    const result = await checkAdapter(keepingAdapter(books), { leastCutMs: AT_REPLY_MS });
    expect(notKept(result)).toEqual([]);
    // Two halves of the first charge, and a whole other one.
    expect(books.givenBack.map(({ amount }) => amount)).toEqual(['0.50', '1.00', '0.50']);
    expect(new Set(books.givenBack.map(({ reference }) => reference)).size).toBe(3);
    const [half, whole, rest] = books.givenBack.map(({ charge }) => charge);
    expect([half, rest, whole === half]).toEqual([result.payments[0]?.reference, half, false]);
    expect(result.refunds.map(({ state }) => state)).toEqual([
      ...['given back', 'given back', 'given back'],
      ...['declined', 'declined'],
    ]);
    expect(result.refunds.filter(({ reference }) => !isOfCheck(reference))).toEqual([]);
    expect(result.refundsAnnounced).toEqual(result.refunds.map(({ reference }) => reference));
    const charged = result.payments.filter(({ state }) => state === 'charged').map(({ reference }) => reference);
    expect(books.moved.map(({ reference }) => reference).sort()).toEqual([...charged].sort());
    expect(result.payments.map(({ reference }) => reference)).toEqual(result.announced);
    const declinedFor = result.payments.filter(({ state }) => state === 'declined').map(({ purpose }) => purpose);
    expect(new Set(declinedFor.filter((purpose) => purpose !== 'ending during a charge'))).toEqual(
      new Set(['decline', 'ending before a charge', 'pending charge', 'payer refuses', 'without a payer']),
    );
    expect(result.payments.length).toBeLessThanOrEqual(17);
    // Each is a reference as the service sends it, and a statement's line shows that it is of this command.
    expect(result.announced.filter((reference) => !isOfCheck(reference) || !mayBeGenerated(reference))).toEqual([]);
  });

  it('may say that a charge is at work, and show the outcome to look-ups', async () => {
    const kept = keepingAdapter({ moved: [] });
    const begun = new Set<string>();
    const result = await checkAdapter(
      {
        ...kept,
        async charge(asked) {
          const reply = await kept.charge(asked);
          if (asked.charge?.source === DECLINED_SOURCE || begun.has(asked.reference)) return reply;
          begun.add(asked.reference);
          return typeof reply === 'object' && reply.status === 200
            ? { status: 202, body: { status: 'processing' } }
            : reply;
        },
      },
      { leastCutMs: AT_REPLY_MS },
    );
    expect(notKept(result)).toEqual([]);
  });

  it('may name its charge, and say that nothing is certain yet, before it says that there is no record', async () => {
    const kept = keepingAdapter({ moved: [] });
    const asked = new Set<string>();
    const result = await checkAdapter(
      {
        ...kept,
        lookUp(question) {
          if (asked.has(question.reference)) return kept.lookUp(question);
          asked.add(question.reference);
          return { status: 425, body: { error: 'not certain yet' } };
        },
      },
      { leastCutMs: AT_REPLY_MS },
    );
    expect(notKept(result)).toEqual([]);
  });

  // Bug: it was found to be broken if the second amount came first, because the look-up was compared with the first one.
  it('may take either of two amounts at once, and name it in the look-up', async () => {
    const books: Books = { moved: [] };
    const kept = keepingAdapter(books);
    const amounts = new Map<string, unknown>();
    const withAmount = async (answer: ReturnType<Adapter['charge']>, { reference }: Asked) => {
      const reply = (await answer) as AdapterReply;
      const named = { amount: amounts.get(reference), currency: MONEY.currency };
      return reply.status === 200 ? { ...reply, body: { ...(reply.body as object), ...named } } : reply;
    };
    const result = await checkAdapter(
      {
        ...kept,
        async charge(asked) {
          const { reference, charge } = asked;
          // The other amount, if there is one, comes first.
          if (charge?.amount === MONEY.amount && !amounts.has(reference)) await pause(200);
          if (!amounts.has(reference)) amounts.set(reference, charge?.amount);
          return withAmount(kept.charge(asked), asked);
        },
        lookUp: (asked) => withAmount(kept.lookUp(asked), asked),
      },
      { leastCutMs: AT_REPLY_MS },
    );
    expect(notKept(result)).toEqual([]);
    expect(new Set(books.moved.map(({ amount }) => amount)).size).toBe(2);
  });
});

/** Refuses another amount, and charges each repeat again: its replies are as from an adapter that charges once. */
function chargingRepeats(books: Books, bodyFor: (asked: Asked) => object): Adapter {
  const kept = keepingAdapter(books, true);
  const named = (reply: AdapterReply, asked: Asked) =>
    reply.status === 200 ? { ...reply, body: { status: 'succeeded', ...bodyFor(asked) } } : reply;
  return {
    ...kept,
    async charge(asked) {
      const known = ((await kept.lookUp(asked)) as AdapterReply).body;
      const isRepeat = Object(known).status === 'succeeded';
      const reply = (await kept.charge(asked)) as AdapterReply;
      if (isRepeat && reply.status === 200) move(books, asked);
      return named(reply, asked);
    },
    lookUp: async (asked) => (await kept.lookUp(asked)) as AdapterReply,
  };
}

/**
 * Bug: an adapter that had charged one reference 21 times was found to keep `twenty at once`, because replies without a name of the charge
 * are all the same. Fix: what such replies cannot show is skipped, with a sentence that says so.
 */
describe('an adapter whose replies name no charge', () => {
  const CANNOT_TELL = 'the replies name no charge, so several charges cannot be told from one: look at the processor.';
  const NOT_TOLD = [
    ['repeat', `The charge and its repeat succeeded; ${CANNOT_TELL}`],
    ['twenty at once', `All of 20 charges at once succeeded; ${CANNOT_TELL}`],
    ['two amounts at once', `Of two amounts at once with one reference only one succeeded; ${CANNOT_TELL}`],
    ['refund', expect.stringMatching(/^A refund and its repeat succeeded; the replies name no refund/)],
    ...OF_REFUNDS.slice(1).map((check) => [check, 'Not checked: no refund of this run was made.']),
  ].map(([check, sentence]) => ({ check, verdict: 'skipped', sentence }));

  it.each<[string, (asked: Asked) => object]>([
    ['has no name of it', () => ({})],
    ['repeats what the request said', ({ reference, charge }) => ({ id: reference, ...charge })],
  ])('is not said to charge once where the reply %s', async (_, bodyFor) => {
    const books: Books = { moved: [] };
    const result = await checkAdapter(chargingRepeats(books, bodyFor), { leastCutMs: AT_REPLY_MS });
    expect(notKept(result)).toEqual(NOT_TOLD);
    const atOnce = result.payments.find(({ purpose }) => purpose === 'twenty at once')?.reference;
    expect(books.moved.filter(({ reference }) => reference === atOnce)).toHaveLength(21);
  });

  it('is not said to charge once where only some replies name it', async () => {
    const books: Books = { moved: [] };
    let count = 0;
    const bodyFor = () => {
      count += 1;
      return count === 1 ? { id: 'ch_1' } : {};
    };
    const result = await checkAdapter(chargingRepeats(books, bodyFor), { leastCutMs: AT_REPLY_MS });
    expect(notKept(result)).toEqual(NOT_TOLD);
  });
});

describe('the reference in replies', () => {
  it('is noted as missing, by kind of reply, if the adapter names it in none', async () => {
    const nameless = { 'idempotency-key': '' };
    const kept = keepingAdapter({ moved: [] });
    const result = await checkAdapter({
      ...kept,
      charge: async (asked) => ({ ...((await kept.charge(asked)) as AdapterReply), headers: nameless }),
      lookUp: async (asked) => ({ ...((await kept.lookUp(asked)) as AdapterReply), headers: nameless }),
      end: async (asked) => ({ ...((await kept.end(asked)) as AdapterReply), headers: nameless }),
    });
    expect(notKept(result)).toMatchObject([
      {
        check: 'reference in replies',
        verdict: 'skipped',
        sentence: expect.stringMatching(
          /: a look-up \(404\), a charge \(200\), .*a charge \(422\).* member reference\.$/,
        ),
      },
    ]);
  });
});

describe('the content of a charge', () => {
  /** The bodies of the charges, in their order, of one reference. */
  async function bodiesAt(adapterOf: (kept: Adapter) => Partial<Adapter>) {
    const books: Books = { moved: [] };
    const kept = keepingAdapter(books);
    const bodies: Record<string, unknown>[] = [];
    const adapter = { ...kept, ...adapterOf(kept) };
    const charge: Adapter['charge'] = (asked) => {
      bodies.push({ reference: asked.reference, ...asked.charge });
      return adapter.charge(asked);
    };
    const result = await checkAdapter({ ...adapter, charge }, { source: 'tok_paying', leastCutMs: AT_REPLY_MS });
    const reference = result.payments.find(({ purpose }) => purpose === 'content')?.reference;
    return { result, books, bodies: bodies.filter((body) => body.reference === reference) };
  }

  it('is sent with one charge, then changed under its reference, and sent as it was', async () => {
    const { result, bodies } = await bodiesAt(() => ({}));
    expect(notKept(result)).toEqual([]);
    const [first, other, again] = bodies;
    expect(first).toMatchObject({ source: 'tok_paying', order: expect.any(String), metadata: expect.any(Object) });
    expect(first?.description).toMatch(/[^\x20-\x7e]/);
    expect([other?.amount, other?.source]).toEqual([first?.amount, first?.source]);
    expect(other?.description).not.toBe(first?.description);
    expect(again).toEqual(first);
    expect(bodies).toHaveLength(3);
  });

  it('may be refused under a reference that was charged with other content', async () => {
    const seen = new Map<string, unknown>();
    const { result, books } = await bodiesAt((kept) => ({
      charge(asked) {
        const description = asked.charge?.description;
        if (!seen.has(asked.reference)) seen.set(asked.reference, description);
        const isOther = seen.get(asked.reference) !== description;
        return isOther ? { status: 422, body: { error: 'other content' } } : kept.charge(asked);
      },
    }));
    expect(notKept(result)).toEqual([]);
    const charged = books.moved.map(({ reference }) => reference);
    expect(new Set(charged).size).toBe(charged.length);
  });

  const first = { 'idempay-contract': '1' };
  const ofFirstContract = (kept: Adapter): Adapter => ({
    charge: async (asked) => ({ ...((await kept.charge(asked)) as AdapterReply), headers: first }),
    lookUp: async (asked) => ({ ...((await kept.lookUp(asked)) as AdapterReply), headers: first }),
  });

  it('is skipped with a note for an adapter of the first contract, which keeps its own', async () => {
    const result = await checkAdapter(ofFirstContract(keepingAdapter({ moved: [] })), { leastCutMs: AT_REPLY_MS });
    const sentence = expect.stringMatching(/Idempay-Contract: 2.*source.*do not arrive/);
    expect(notKeptOfEarlier(result)).toEqual([{ check: 'content is read', verdict: 'skipped', sentence }]);
    const ofThird = result.checks.filter((each) => OF_CONTRACT_3.includes(each.check));
    expect(ofThird).toMatchObject(
      OF_CONTRACT_3.map(() => ({ verdict: 'skipped', sentence: expect.stringContaining('names contract 1') })),
    );
  });

  it('is read by an adapter of the second contract, which is asked for nothing of the third', async () => {
    const second = { 'idempay-contract': '2' };
    const kept = keepingAdapter({ moved: [] });
    const endings: string[] = [];
    const result = await checkAdapter({
      charge: async (asked) => ({ ...((await kept.charge(asked)) as AdapterReply), headers: second }),
      lookUp: async (asked) => ({ ...((await kept.lookUp(asked)) as AdapterReply), headers: second }),
      end(asked) {
        endings.push(asked.reference);
        return declined();
      },
    });
    expect([notKeptOfEarlier(result), endings]).toEqual([[], []]);
    expect(result.payments.filter(({ returnUrl }) => returnUrl !== undefined)).toEqual([]);
  });

  // Bug: the check ended with 0 if a source was given that the adapter does not say it reads. Fix: with a source, this check is broken.
  it('is broken where the check has a source and the adapter does not say that it reads it', async () => {
    const { result } = await bodiesAt(ofFirstContract);
    const sentence = expect.stringMatching(/no Idempay-Contract: 2\. The payer's token \(--source\) would not arrive/);
    expect(notKeptOfEarlier(result)).toEqual([{ check: 'content is read', verdict: 'broken', sentence }]);
  });
});

describe('our own adapters', () => {
  const DECLINE_SKIPPED = [{ check: 'decline', sentence: expect.stringContaining('--declining-source') }];

  it('the reference processor keeps the contract, also when it is restarted', async () => {
    const processor = await serveReferenceProcessor({ behaviour: { pendingRate: 1, latencyMs: 20 } });
    try {
      const result = await check(processor.url, {
        confirmingSource: 'tok_1',
        async payer(does, action) {
          await fetch(`${action?.url}/${does}`, { method: 'POST', redirect: 'manual' });
          return undefined;
        },
        async restart() {
          await processor.restart();
          return undefined;
        },
      });
      expect(notKept(result)).toMatchObject(DECLINE_SKIPPED);
      expect(result.checks.find((each) => each.check === 'ending during a charge')?.sentence).toContain('ended, ');
      const logged = new Set((await processor.charges()).map(({ reference }) => reference));
      expect([...logged].sort()).toEqual(result.payments.map(({ reference }) => reference).sort());
    } finally {
      await processor.close();
    }
  });

  let stripe: StripeEnvironment | undefined;
  afterAll(() => stripe?.close());

  it('the Stripe adapter keeps the contract over its stand-in, also when it is restarted', async () => {
    const environment = await openStripeEnvironment();
    stripe = environment;
    const result = await check(environment.adapterUrl, {
      source: 'pm_card_visa',
      decliningSource: 'pm_card_chargeDeclined',
      confirmingSource: 'pm_card_threeDSecure2Required',
      async payer(does, action) {
        const body = new URLSearchParams({ answer: does });
        await fetch(`${action?.url}`, { method: 'POST', body, redirect: 'manual' });
        return undefined;
      },
      async restart() {
        await environment.restartAdapter();
        return undefined;
      },
    });
    expect(notKept(result)).toEqual([]);
    const made = result.payments.map(({ reference }) => environment.stripe.intentsOf(reference).length);
    expect(made).toEqual(made.map(() => 1));
  });

  it('the reference processor without deduplication is found to charge twice', async () => {
    const other = await serveReferenceProcessor({ behaviour: { deduplicate: false } });
    try {
      expect(verdicts(await check(other.url))['another amount']).toBe('broken');
    } finally {
      await other.close();
    }
  });
});

/** The references are listed for whoever refunds them. */
it('a reference that was charged is listed as charged although its repeat is declined', async () => {
  const books: Books = { moved: [] };
  const kept = keepingAdapter(books);
  const isCharged = ({ reference }: Asked) => books.moved.some((moved) => moved.reference === reference);
  const result = await checkAdapter({
    ...kept,
    charge: (asked) => (isCharged(asked) ? declined() : kept.charge(asked)),
  });
  expect(verdicts(result)).toMatchObject({ repeat: 'broken' });
  const charged = result.payments.filter(({ state }) => state === 'charged').map(({ reference }) => reference);
  expect(charged).toEqual(books.moved.map(({ reference }) => reference));
});

/** Replies that no adapter should send. */
const HOSTILE_BODIES: readonly (readonly [name: string, body: string])[] = [
  ['null', 'null'],
  ['an empty list', '[]'],
  ['a number', '1'],
  ['a text', '"succeeded"'],
  ['a status that is an object', '{"status":{}}'],
  ['a reason that is an object', '{"status":"declined","reason":{"toString":null}}'],
  ['a status in a prototype', '{"__proto__":{"status":"succeeded"}}'],
  ['60,000 open brackets', '['.repeat(60_000)],
  ['a NUL', '\0'],
  ['a status of 60,000 characters', `{"status":"${'x'.repeat(60_000)}"}`],
  ['more than 64 KiB', 'x'.repeat(100_000)],
];
const HOSTILE_BYTES: readonly (readonly [name: string, bytes: string])[] = [
  ['a body that does not end', 'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{'],
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n'],
  ['a thousand interim replies', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1_000)],
  ['a broken chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n'],
  ['an endless header', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`],
  ['TLS', '\x16\x03\x01\x02'],
];

describe('an adapter that answers anything', () => {
  it.concurrent.for(HOSTILE_BODIES)('is judged where the body is %s', async ([, body], { expect }) => {
    const result = await checkAdapter({ ...keepingAdapter({ moved: [] }), charge: () => ({ status: 200, body }) });
    expect(result.checks.find(({ verdict }) => verdict === 'broken')).toMatchObject({ check: 'charge' });
  });

  it('is judged where what it answers to look-ups after a charge is hostile', async () => {
    const kept = keepingAdapter({ moved: [] });
    const charged = new Set<string>();
    const adapter: Adapter = {
      charge: (asked) => {
        charged.add(asked.reference);
        return kept.charge(asked);
      },
      lookUp: (asked) => (charged.has(asked.reference) ? { status: 200, body: '{"status":[]}' } : kept.lookUp(asked)),
    };
    const result = await checkAdapter(adapter);
    expect(verdicts(result)).toMatchObject({ charge: 'kept', 'look-up after a charge': 'broken' });
    expect(result.checks).toHaveLength(32);
  });

  it.each(HOSTILE_BYTES)('does not keep the command where it sends %s', async (_, bytes) => {
    const { port } = await startByteServer((socket) => socket.write(bytes));
    const url = `http://127.0.0.1:${port}`;
    const result = await check(url, { timeoutMs: 300 });
    expect(result.checks[0]).toMatchObject({ verdict: 'broken' });
    expect(result.announced).toEqual([]);
    const question = { method: 'POST', path: '/charges', headers: {}, body: '{}' } as const;
    for (const isCutAtReply of [true, false]) {
      const lost = await sendAndLoseReply(url, question, { afterMs: 100, isCutAtReply, timeoutMs: 300 });
      expect(lost).toMatchObject({ isSent: true });
    }
  });

  it('does not keep the command where nobody listens', async () => {
    const port = await freePort();
    const question = { method: 'POST', path: '/charges', headers: {}, body: '{}' } as const;
    const loss = { afterMs: 100, isCutAtReply: true, timeoutMs: 300 };
    expect(await sendAndLoseReply(`http://127.0.0.1:${port}`, question, loss)).toEqual({
      isSent: false,
      isAnswered: false,
    });
  });
});

describe('an adapter that gives nothing back', () => {
  it.each([404, 405, 501])(
    'because it has no path for that, and answers %i, is told so, and asked for no more',
    async (status) => {
      const kept = keepingAdapter({ moved: [] });
      let asked = 0;
      const refund = () => {
        asked += 1;
        return { status, body: { error: 'no such path' } };
      };
      const result = await checkAdapter({ ...kept, refund });
      const [first, ...others] = notKept(result);
      const sentence = expect.stringContaining(`the adapter has no refunds, as it answered ${status} to one.`);
      expect(first).toEqual({ check: 'refund', verdict: 'skipped', sentence });
      expect(others.map((each) => each.check)).toEqual(OF_REFUNDS.slice(1));
      expect(asked).toBe(1);
    },
  );

  it('because its processor takes no refunds declines them, and is asked for no more', async () => {
    const kept = keepingAdapter({ moved: [] });
    const result = await checkAdapter({ ...kept, refund: declined });
    expect(notKept(result)[0]).toEqual({
      check: 'refund',
      verdict: 'skipped',
      sentence: 'Not checked: the refund of a part of the first charge was declined (No cover.).',
    });
    expect(notKept(result)).toHaveLength(OF_REFUNDS.length);
  });

  it('at once may say that a refund is at work, or pending', async () => {
    const kept = keepingAdapter({ moved: [] });
    const begun = new Set<string>();
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const pending = (reply: AdapterReply, status: number) =>
      reply.status === 200 ? { status, body: { ...(reply.body as object), status: 'pending', until } } : reply;
    const result = await checkAdapter({
      ...kept,
      async refund(asked) {
        const reply = (await kept.refund(asked)) as AdapterReply;
        if (reply.status !== 200 || begun.has(asked.reference)) return pending(reply, 202);
        begun.add(asked.reference);
        return { status: 409, body: { error: 'at work' } };
      },
      lookUpRefund: async (asked) => pending((await kept.lookUpRefund(asked)) as AdapterReply, 200),
    });
    expect(notKept(result)).toEqual([]);
    expect(result.refunds[0]?.state).toBe('pending');
  });
});

it.each([
  ['tells', /the look-up has it\.$/],
  ['leaves out', /the look-up has it, without amount and currency: .* waits for an operator\.$/],
] as const)('an adapter whose look-up of a refund %s the amount is told what that means', async (what, sentence) => {
  const kept = keepingAdapter({ moved: [] });
  const given = new Map<string, object>();
  const result = await checkAdapter({
    ...kept,
    refund(asked) {
      const { amount, currency } = asked.charge ?? {};
      given.set(asked.reference, { amount, currency });
      return kept.refund(asked);
    },
    async lookUpRefund(asked) {
      const reply = (await kept.lookUpRefund(asked)) as AdapterReply;
      const money = what === 'tells' && reply.status === 200 && given.get(asked.reference);
      return { ...reply, body: { ...(reply.body as object), amount: undefined, currency: undefined, ...money } };
    },
  });
  expect(notKept(result)).toEqual([]);
  expect(result.checks.find(({ check }) => check === 'refund')?.sentence).toMatch(sentence);
});

describe('a broken adapter', () => {
  it.concurrent.for([...BROKEN_ADAPTERS, ...BROKEN_OPEN_CHARGES, ...BROKEN_REFUNDS])(
    'that $title is named',
    async (broken, { expect }) => {
      const { open, title: _, check: name, says, isChargedTwice, ...limits } = broken;
      const books: Books = { moved: [] };
      const result = await checkAdapter(open(books), limits);
      const first = result.checks.find(({ verdict }) => verdict === 'broken');
      expect(first).toMatchObject({ check: name, sentence: expect.stringMatching(says) });
      const references = books.moved.map(({ reference }) => reference);
      if (isChargedTwice) expect(new Set(references).size).toBeLessThan(references.length);
      // In any case, no money moves that was not announced before.
      const known = [...result.announced, ''];
      expect(references.filter((reference) => !known.includes(reference))).toEqual([]);
    },
  );
});

describe('idempay processor check', () => {
  let processor: ProcessorInProcess;
  beforeAll(async () => {
    processor = await serveReferenceProcessor();
  });
  afterAll(() => processor?.close());

  const NO_SERVICE = 'http://127.0.0.1:1';
  const idempay = (...parameters: string[]) => runCommandHere(NO_SERVICE, ['processor', ...parameters]);
  /** With an adapter of this test's own. */
  async function idempayWith(adapter: Adapter, ...parameters: string[]) {
    const server = await serveAdapter(adapter);
    try {
      return await idempay('check', server.url, '--yes', ...parameters);
    } finally {
      await server.close();
    }
  }
  const chargesNow = async () => (await processor.charges()).length;

  it('says first that it charges, prints a sentence for each check and every reference, and ends with 0', async () => {
    const before = await chargesNow();
    const { code, stdout, stderr } = await idempay(
      'check',
      processor.url,
      '--yes',
      '--amount',
      '2.5',
      '--source',
      'tok',
    );
    expect([code, stderr.split('\n')[0]]).toEqual([
      0,
      expect.stringContaining(`This will charge 2.50 EUR for real, with up to 17 references, at ${processor.url}.`),
    ]);
    expect(stdout).toContain('kept\trepeat\tA repeat got the outcome of the first charge.\n');
    expect(stdout).toContain('24 kept, 0 broken, 8 skipped.\nLook at the processor: ');
    const made = (await processor.charges()).slice(before);
    expect(made).not.toEqual([]);
    for (const { reference, amount, currency, status } of made) {
      const state = status === 'succeeded' ? 'charged' : 'declined';
      expect(stdout).toContain(`${state}\t${amount} ${currency}\t${reference}\t`);
      expect(stderr).toContain(`with the reference ${reference} (`);
    }
  });

  it('plays the payer and a restart with the commands that it is given, and then skips nothing of pending charges', async () => {
    const own = await serveReferenceProcessor({ behaviour: { pendingRate: 1 } });
    const marks = await mkdtemp(join(tmpdir(), 'idempay-check-'));
    const payer = `curl -sf -o ${marks}/$IDEMPAY_PAYER_DOES -X POST "$IDEMPAY_ACTION_URL/$IDEMPAY_PAYER_DOES"`;
    const restart = `touch ${marks}/restarted`;
    const commands = ['--confirming-source', 'tok', '--payer-command', payer, '--restart-command', restart];
    try {
      const { code, stdout, stderr } = await idempay('check', own.url, '--yes', ...commands);
      expect([code, stdout]).toEqual([0, expect.stringContaining('31 kept, 0 broken, 1 skipped.\n')]);
      for (const check of OF_CONTRACT_3) expect(stdout).toContain(`kept\t${check}\t`);
      expect(await readdir(marks)).toEqual(['confirm', 'refuse', 'restarted']);
      expect(stdout + stderr).not.toContain('/pages/');
      const failing = await idempay('check', own.url, '--yes', ...commands.with(3, 'exit 7').with(5, 'kill $$'));
      expect(failing.stdout).toContain('skipped\trestart\tNot checked: the --restart-command ended with SIGTERM.');
      expect(failing.stdout).toContain('Not checked: the --payer-command ended with the exit code 7.');
    } finally {
      await own.close();
      await rm(marks, { recursive: true, force: true });
    }
  });

  it('has each check and the sum as JSON, and takes the URL with its password from PROCESSOR_URL', async () => {
    const kept = keepingAdapter({ moved: [] });
    const server = await serveAdapter(kept);
    const environment = { PROCESSOR_URL: server.url.replace('//', '//idempay:hidden@') };
    const parameters = [
      'processor',
      'check',
      '--yes',
      '--json',
      '--currency',
      'jpy',
      '--declining-source',
      DECLINED_SOURCE,
    ];
    const { code, stdout, stderr } = await runCommandHere(NO_SERVICE, parameters, environment);
    await server.close();
    const documents = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(code).toBe(0);
    expect(documents).toHaveLength(33);
    expect(documents[0]).toEqual({ check: 'look-up before a charge', verdict: 'kept', sentence: expect.any(String) });
    const sum = documents.at(-1);
    expect(sum).toMatchObject({ isKept: true, kept: 24, broken: 0, skipped: 8, areChargesNamed: true });
    expect(sum.references[0]).toEqual({
      reference: expect.stringMatching(/^[0-9a-f-]{36}$/),
      transactionId: expect.stringMatching(/^TXN\d+$/),
      amounts: ['1'],
      currency: 'JPY',
      state: 'charged',
      purpose: 'charge, look-up, repeat, another amount',
    });
    expect(stdout + stderr).not.toContain('hidden');
    expect(stdout + stderr).not.toContain(DECLINED_SOURCE);
  });

  it('says in the sum, also as JSON, that the replies name no charge', async () => {
    const plain = await idempayWith(chargingRepeats({ moved: [] }, () => ({})));
    expect(plain.code).toBe(0);
    expect(plain.stdout).toContain(
      '16 kept, 0 broken, 16 skipped.\nThe replies, or some of them, name no charge, so it is not shown ',
    );
    const asJson = await idempayWith(
      chargingRepeats({ moved: [] }, () => ({})),
      '--json',
    );
    const sum = JSON.parse(asJson.stdout.trimEnd().split('\n').at(-1) ?? '');
    expect(sum).toMatchObject({ broken: 0, skipped: 16, areChargesNamed: false });
  });

  it('ends with 15 where the contract is broken, and prints nothing that a terminal would execute', async () => {
    const adapter = {
      ...keepingAdapter({ moved: [] }),
      charge: () => ({ status: 200, body: '\x1b[2J', headers: { 'content-type': 'a/\x85b' } }),
    };
    const { code, stdout, stderr } = await idempayWith(adapter);
    expect([code, stdout]).toEqual([15, expect.stringContaining('broken\tcharge\tThe charge is not clear: ')]);
    expect(stdout).toMatch(/^unknown\t1\.00 EUR\t[0-9a-f-]{36}\t/m);
    expect(stdout + stderr).not.toMatch(/[^\P{Cc}\n\t]/u);
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('ends with 1 where the first charge is declined, because that is no fault of the adapter', async () => {
    const { code, stdout } = await idempayWith(keepingAdapter({ moved: [] }), '--source', DECLINED_SOURCE);
    expect([code, stdout]).toEqual([1, expect.stringContaining('Give a --source')]);
  });

  it('ends with 5 where the adapter cannot be reached, also as JSON', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const plain = await idempay('check', url, '--yes');
    expect([plain.code, plain.stdout]).toEqual([5, '']);
    expect(plain.stderr).toMatch(/The processor cannot be reached, and nothing was charged: .*ECONNREFUSED/);
    const { code, stderr } = await idempay('check', url, '--yes', '--json');
    expect([code, JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '')]).toMatchObject([5, { error: 'unavailable' }]);
  });

  it.each([
    ['no --yes', [], /Nothing was done.* Add --yes to charge 1\.00 EUR for real/],
    ['an amount of another currency', ['--yes', '--amount', '1.001'], /--amount has more decimals than EUR has/],
    ['an unknown currency', ['--yes', '--currency', 'XXX'], /--currency must be an ISO 4217 code/],
    [
      'a source with a blank',
      ['--yes', '--source', 'a b'],
      /--source: 'source' must be 1 to 500 visible ASCII characters/,
    ],
    [
      'a card number',
      ['--yes', '--declining-source', '4242424242424242'],
      /--declining-source: 'source' looks like a card number/,
    ],
    ['an empty source', ['--yes', '--source', ''], /--source has an empty value/],
    ['a time limit that is no number', ['--yes', '--timeout-ms', '1s'], /--timeout-ms takes a whole number/],
  ])('charges nothing with %s', async (_, options, message) => {
    const before = await chargesNow();
    const { code, stderr } = await idempay('check', processor.url, ...options);
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
    expect(await chargesNow()).toBe(before);
  });

  it.each([
    ['no URL', ['check', '--yes'], /Say which adapter/],
    ['a URL with a query', ['check', 'http://127.0.0.1:1/?a=b', '--yes'], /The URL must be/],
    ['what is no URL', ['check', '--', '--help'], /The URL must be/],
    ['a misspelt command', ['chek'], /too many arguments/],
    ['an option after --', ['--', '--help'], /too many arguments/],
  ])('ends with 1 for %s, and starts no reference processor', async (_, parameters, message) => {
    const { code, stderr } = await idempay(...parameters);
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  });

  it('charges nothing where standard output cannot be written', async () => {
    const before = await chargesNow();
    const parameters = ['processor', 'check', processor.url, '--yes'];
    const { code } = await startCommand(NO_SERVICE, parameters, {}, FULL_OUTPUT).result;
    expect(code).toBe(12);
    expect(await chargesNow()).toBe(before);
  });
});
