import { Idempay, type IdempayOptions, UnknownChangeError, UnknownOutcomeError } from '@idempay/client';
import { TestClock } from '#idempay/testing/test-clock.js';
import { answeringGateway, type Gateway, nameOf, type OwnAnswer } from './answering-gateway.js';

/** The service's address, and the way to it without the gateway. */
export type Service = Required<Pick<IdempayOptions, 'baseUrl' | 'fetch'>>;

/** Four attempts: more would meet the same. */
const DEADLINE_MS = 2_000;
const PAYMENT = { amount: '100.50', currency: 'USD' };

interface Calls {
  /** Through the gateway. */
  readonly idempay: Idempay;
  /** Past it. */
  readonly direct: Idempay;
  readonly service: Service;
  readonly gateway: Gateway;
  /** An account that no other call uses. */
  readonly account: string;
}

export interface GatewayOperation {
  readonly name: string;
  /** A second send would carry it out twice. */
  readonly isOnce?: true;
  /** `done`: how often it was carried out, as the service shows it. */
  begin(calls: Calls): Promise<{ readonly call: Promise<unknown>; done(): Promise<number> }>;
}

const wantedOf = ({ account }: Calls) => ({ fromAccount: account, toAccount: 'bob', amount: '12.34' });
const rowsOf = async ({ direct, account }: Calls) => (await direct.transactions.ids({ from: account })).length;
const keysMet = ({ gateway }: Calls) =>
  new Set(gateway.met.map(({ headers }) => new Headers(headers).get('idempotency-key')));

export async function newKey({ baseUrl, fetch }: Service): Promise<string> {
  return (await (await fetch(`${baseUrl}/api/server-generated/generate-key`)).json()) as string;
}

/** The reference of the one order of these calls: no other call uses its name. */
const orderOf = ({ account }: Calls) => ({ reference: `order-${account}`, attempt: 1 });

/** How many of the attempts at it are in this state. */
async function attemptsOf(calls: Calls, state: 'COMPLETED' | 'CANCELLED'): Promise<number> {
  let count = 0;
  const { reference } = orderOf(calls);
  for await (const payment of calls.direct.payments.list({ reference, state })) count += payment.attempt === 1 ? 1 : 2;
  return count;
}

async function paymentsOf(calls: Calls): Promise<number> {
  const records = await Promise.all([...keysMet(calls)].map((key) => calls.direct.payments.get(key ?? '')));
  return records.filter(({ state }) => state === 'COMPLETED').length;
}

function createOf(isOnce: boolean, isBatch: boolean): GatewayOperation {
  return {
    name: `create${isBatch ? ' of a batch' : ''} ${isOnce ? 'without' : 'with'} a key`,
    ...(isOnce && { isOnce }),
    async begin(calls) {
      const { transactions } = calls.idempay;
      const options = isOnce ? {} : { idempotencyKey: calls.account };
      const wanted = wantedOf(calls);
      const call = isBatch ? transactions.createBatch([wanted], options) : transactions.create(wanted, options);
      return { call, done: () => rowsOf(calls) };
    },
  };
}

/** Changes or removes a transaction that exists: by its id, or only if it still is as it was read. */
function changeOf(what: 'change of status' | 'removal', isConditional: boolean): GatewayOperation {
  return {
    name: `${what}${isConditional ? ' under If-Match' : ''}`,
    async begin(calls) {
      const { direct, idempay } = calls;
      const { transactionId } = (await direct.transactions.create(wantedOf(calls))).transaction;
      const target = isConditional ? await idempay.transactions.get(transactionId) : transactionId;
      if (what === 'removal') {
        const done = async () => ((await rowsOf(calls)) === 0 ? 1 : 0);
        return { call: idempay.transactions.remove(target), done };
      }
      const done = async () => ((await direct.transactions.get(transactionId)).status === 'FLAGGED' ? 1 : 0);
      return { call: idempay.transactions.changeStatus(target, 'FLAGGED'), done };
    },
  };
}

/** Everything that the client sends to change something; `resolve` is the matter of a service whose processor can be made unclear. */
export const GATEWAY_OPERATIONS: readonly GatewayOperation[] = [
  {
    name: 'pay',
    begin: async (calls) => ({ call: calls.idempay.payments.pay(PAYMENT), done: () => paymentsOf(calls) }),
  },
  {
    name: 'resume',
    async begin(calls) {
      const call = calls.idempay.payments.resume(await newKey(calls.service), PAYMENT);
      return { call, done: () => paymentsOf(calls) };
    },
  },
  {
    name: 'pay by reference',
    async begin(calls) {
      return { call: calls.idempay.payments.pay(PAYMENT, orderOf(calls)), done: () => attemptsOf(calls, 'COMPLETED') };
    },
  },
  {
    name: 'cancel by reference',
    async begin(calls) {
      return { call: calls.idempay.payments.cancel(orderOf(calls)), done: () => attemptsOf(calls, 'CANCELLED') };
    },
  },
  {
    name: 'cancel by key',
    async begin(calls) {
      const key = await newKey(calls.service);
      const done = async () => ((await calls.direct.payments.get(key)).state === 'CANCELLED' ? 1 : 0);
      return { call: calls.idempay.payments.cancel({ key }), done };
    },
  },
  ...[true, false].flatMap((isOnce) => [createOf(isOnce, false), createOf(isOnce, true)]),
  ...[true, false].flatMap((isConditional) => [
    changeOf('change of status', isConditional),
    changeOf('removal', isConditional),
  ]),
];

/** Mistakes in how the client ended one call through a gateway that gives this answer; empty if there are none. */
export async function faultsOfCall(
  operation: GatewayOperation,
  own: OwnAnswer,
  service: Service,
  options: Partial<IdempayOptions> & { readonly account: string },
): Promise<string[]> {
  const { account, ...more } = options;
  const clock = new TestClock();
  const gateway = answeringGateway(service.fetch, own, ({ method }) => method !== 'GET');
  const usual = { baseUrl: service.baseUrl, clock, random: () => 0.5, deadlineMs: DEADLINE_MS };
  const idempay = new Idempay({ ...usual, fetch: gateway.fetch, ...more });
  const calls: Calls = { idempay, direct: new Idempay(service), service, gateway, account };
  const { call, done } = await operation.begin(calls);
  const end = await call.then(
    () => 'done' as const,
    (error: unknown) => error as Error,
  );
  const times = await done();
  const faults: string[] = [];
  if (times > 1) faults.push(`was carried out ${times} times`);
  if (end !== 'done') faults.push(...faultsOfError(end, calls));
  // A gateway that writes the service's own header on a 204 cannot be told from it.
  const isForged = own.status === 204 && own.header === 'kept';
  if (end === 'done' && times !== 1 && !isForged) faults.push('resolved without having been carried out');
  if (operation.isOnce && gateway.met.length > 1) faults.push(`was sent ${gateway.met.length} times`);
  if (keysMet(calls).size > 1) faults.push('took another key');
  // The gateway then passes on the service's own answer, which settles everything but a conflict with the call's own change.
  const isSettled = own.lasts === 'once' && !operation.isOnce && !operation.name.endsWith('If-Match');
  if (isSettled && end !== 'done') faults.push(`was not settled by a repeat: ${end}`);
  return faults.map((fault) => `${operation.name}: ${nameOf(own)}: ${fault}`);
}

function faultsOfError(error: Error, calls: Calls): string[] {
  if (error instanceof UnknownOutcomeError) {
    const { key, reference } = error;
    const isNamed = reference === undefined ? keysMet(calls).has(key ?? '') : reference === orderOf(calls).reference;
    return isNamed ? [] : ['ended with the name of another payment'];
  }
  return error instanceof UnknownChangeError
    ? []
    : [`ended as if nothing had been done: ${error.name}: ${error.message}`];
}
