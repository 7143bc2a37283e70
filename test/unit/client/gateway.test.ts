/**
 * Bug: a gateway that answers by itself, before or after it passed a request on, made the client say that nothing was done. `pay` ended in
 * an error without a key after a charge, and a 401 made it send a create without a key again. Cause: answers were judged by their status,
 * or by three members that anybody could have written. Fix: only an answer that is surely the service's own counts (rule P23); everything
 * else is repeated if that is safe, and then unknown.
 */

import { Idempay, UnavailableError, UnexpectedAnswerError } from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { FakeIdempay, TestClock } from '#idempay/testing/index.js';
import { isTried } from '../../../testkit/cases.js';
import {
  answeringGateway,
  nameOf,
  OWN_ANSWERS,
  type OwnAnswer,
  STATUSES,
} from '../../../testkit/client-library/answering-gateway.js';
import {
  faultsOfCall,
  GATEWAY_OPERATIONS,
  type GatewayOperation,
  newKey,
} from '../../../testkit/client-library/gateway-calls.js';
import { allOf, HUNDRED } from '../../../testkit/client-library/scripted-fetch.js';

/** An answer has its header or not, and comes once or always. */
const WAYS_TO_END = 4;

/**
 * The answers that an operation meets. Each kind of body with each status comes before and after the service, in one of the four ways to
 * end, and four operations side by side meet all of them.
 */
function triedOf(place: number): [index: number, own: OwnAnswer][] {
  const ofStatus = OWN_ANSWERS.length / STATUSES.length;
  return [...OWN_ANSWERS.entries()].filter(([index]) => {
    const [status, way] = [Math.floor(index / ofStatus), index % ofStatus];
    return isTried(place + status + way + Math.floor(way / WAYS_TO_END));
  });
}

/** Resolves a payment whose processor's reply was lost. */
function resolveAt(fake: FakeIdempay): GatewayOperation {
  return {
    name: 'resolve',
    async begin({ idempay, direct, service }) {
      const key = await newKey(service);
      fake.next('pay', 'unknown');
      const headers = { 'content-type': 'application/json', 'idempotency-key': key };
      await fake.fetch(`${fake.baseUrl}/api/payment`, { method: 'POST', headers, body: JSON.stringify(HUNDRED) });
      const call = idempay.payments.resolve(key, { outcome: 'declined', reason: 'on the statement' });
      return { call, done: async () => ((await direct.payments.get(key)).state === 'DECLINED' ? 1 : 0) };
    },
  };
}

describe('through a gateway that answers by itself', () => {
  test.each([...GATEWAY_OPERATIONS.map(({ name }) => name), 'resolve'])(
    'a call never ends in an error that says that nothing was done: %s',
    async (name) => {
      const faults: string[] = [];
      const fake = new FakeIdempay();
      const place = GATEWAY_OPERATIONS.findIndex((each) => each.name === name);
      const operation = GATEWAY_OPERATIONS[place] ?? resolveAt(fake);
      for (const [index, own] of triedOf(place + 1)) {
        for (const more of own.status === 401 ? [{}, { token: () => 'a-token' }] : [{}]) {
          const account = `account-${index}${'token' in more ? '-token' : ''}`;
          faults.push(...(await faultsOfCall(operation, own, fake, { account, ...more })));
        }
      }
      expect(faults).toEqual([]);
    },
  );

  test('a read is never answered by it, and its error says that the answer is not the service’s own', async () => {
    const { baseUrl, fetch } = new FakeIdempay();
    for (const [, own] of triedOf(0).filter(([, { when, lasts }]) => when === 'before' && lasts === 'always')) {
      const clock = new TestClock();
      const gateway = answeringGateway(fetch, own, () => true);
      const idempay = new Idempay({ baseUrl, fetch: gateway.fetch, clock, deadlineMs: 2_000 });
      const { payments, transactions } = idempay;
      const reads: Record<string, () => Promise<unknown>> = {
        get: () => transactions.get(1),
        ids: () => transactions.ids(),
        list: () => allOf(transactions.list()),
        payment: () => payments.get('01a20492-901c-70a0-943a-94814aa8fa0b'),
        payments: () => allOf(payments.list()),
        status: () => payments.status({ reference: 'order-17' }),
        export: () => allOf(payments.export('2026-11-25')),
        key: () => payments.prefetchKeys(1),
        pay: () => payments.pay(HUNDRED),
      };
      for (const [name, read] of Object.entries(reads)) {
        const error = await read().catch((fault: unknown) => fault);
        const isOwn = own.header === 'kept' && own.body === 'JSON with the members of the service';
        const kinds = [UnexpectedAnswerError, UnavailableError];
        // With the header, the members and the status it is the service's own as far as a read can know.
        if (!isOwn)
          expect(
            kinds.some((kind) => error instanceof kind),
            `${name}: ${nameOf(own)}: ${error}`,
          ).toBe(true);
        expect(error, `${name}: ${nameOf(own)}`).toBeInstanceOf(Error);
      }
      expect(gateway.met.every(({ method }) => method === 'GET')).toBe(true);
    }
  });
});
