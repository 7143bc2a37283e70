import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { PaymentRequest } from '@idempay/client';
import { keepOnce, keptText } from '../keep-once.ts';

export interface Order {
  readonly id: string;
  readonly article: string;
  /** What the shop asks for. Nothing that a browser sends changes it. */
  readonly price: PaymentRequest;
}

export type Outcome =
  | { readonly state: 'paid'; readonly transactionId: string }
  | { readonly state: 'declined'; readonly reason: string };

/** One attempt to pay an order. It has one key; after a decline the next attempt has another one. */
export interface Attempt {
  readonly order: Order;
  readonly number: number;
  readonly keyFile: string;
}

/** How an order stands. */
export interface NewestAttempt {
  readonly attempt: Attempt;
  readonly outcome: Outcome | undefined;
  readonly hasBegun: boolean;
  readonly deadKey: string | undefined;
}

const ID = /^[0-9a-f-]{36}$/;

/** The shop's database, as files that are written once. */
export class Orders {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  async create(article: string, price: PaymentRequest): Promise<Order> {
    const order = { id: randomUUID(), article, price };
    await keepOnce(this.#path(order.id, 'order'), JSON.stringify(order));
    return order;
  }

  async find(id: string): Promise<Order | undefined> {
    const text = ID.test(id) ? await keptText(this.#path(id, 'order')) : undefined;
    return text === undefined ? undefined : (JSON.parse(text) as Order);
  }

  /** The order's attempt with this number; undefined if it may not begin, because the one before it was not declined. */
  async attempt(order: Order, number: number): Promise<Attempt | undefined> {
    const before = number > 1 ? await this.#outcome(order.id, number - 1) : undefined;
    if (!(number === 1 || before?.state === 'declined')) return undefined;
    return { order, number, keyFile: this.#path(order.id, `key-${number}`) };
  }

  async newest(order: Order): Promise<NewestAttempt> {
    for (let number = 1; ; number += 1) {
      const outcome = await this.#outcome(order.id, number);
      if (await this.attempt(order, number + 1)) continue;
      const attempt = { order, number, keyFile: this.#path(order.id, `key-${number}`) };
      const hasBegun = (await keptText(attempt.keyFile)) !== undefined;
      return { attempt, outcome, hasBegun, deadKey: outcome ? undefined : await this.deadKeyOf(attempt) };
    }
  }

  outcomeOf = ({ order, number }: Attempt): Promise<Outcome | undefined> => this.#outcome(order.id, number);

  async end({ order, number }: Attempt, outcome: Outcome): Promise<void> {
    await keepOnce(this.#path(order.id, `outcome-${number}`), JSON.stringify(outcome));
  }

  /** The key whose charge a person must look for at the processor. The outcome that they find is kept with `end`. */
  deadKeyOf = ({ order, number }: Attempt): Promise<string | undefined> => keptText(this.#deadKey(order.id, number));

  async setAside({ order, number }: Attempt, deadKey: string): Promise<void> {
    await keepOnce(this.#deadKey(order.id, number), deadKey);
  }

  /** Attempts that have a key and no outcome, and are not set aside: the shop, or the browser, stopped in the middle. */
  async *open(): AsyncGenerator<Attempt> {
    for (const name of readdirSync(this.#folder)) {
      const [, id = '', number] = /^(.+)\.key-(\d+)$/.exec(name) ?? [];
      const order = await this.find(id);
      if (!order || (await this.#outcome(id, Number(number)))) continue;
      const attempt = { order, number: Number(number), keyFile: join(this.#folder, name) };
      if ((await this.deadKeyOf(attempt)) === undefined) yield attempt;
    }
  }

  async #outcome(id: string, number: number): Promise<Outcome | undefined> {
    const text = await keptText(this.#path(id, `outcome-${number}`));
    return text === undefined ? undefined : (JSON.parse(text) as Outcome);
  }

  #deadKey(id: string, number: number): string {
    return this.#path(id, `dead-key-${number}`);
  }

  #path(id: string, kind: string): string {
    return join(this.#folder, `${id}.${kind}`);
  }
}
