import type { PaymentRequest } from '@idempay/client';
import type { Cards } from './cards.ts';
import type { Order } from './orders.ts';
import type { Standing } from './payments.ts';
import { escaped } from './text.ts';

export function startPage(prices: ReadonlyMap<string, PaymentRequest>): string {
  const buttons = [...prices].map(
    ([article, { amount, currency }]) =>
      `<button name="article" value="${article}">${article}, ${amount} ${currency}</button>`,
  );
  return page('Shop', `<form method="post" action="/orders">${buttons.join('')}</form>`);
}

/** The address names the order, so a reload, the back button and a second tab are about the same one. */
export function orderPage({ id, article, price }: Order, { text, button, attempt }: Standing, cards: Cards): string {
  const { fields, script } = cards;
  const form = `<form method="post" action="/orders/${id}">${fields}<button name="attempt" value="${attempt}">${button}</button></form>`;
  const content = `<p>${article}: ${price.amount} ${price.currency}</p><p role="status">${escaped(text)}</p>`;
  return page('Your order', attempt === undefined ? content : content + form + script);
}

const page = (title: string, content: string) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><h1>${title}</h1>${content}</html>`;
