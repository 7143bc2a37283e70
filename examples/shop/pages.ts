import type { Cards } from './cards.ts';
import { articlesOf, type Order, type OrderLine, sumOf } from './orders.ts';
import type { Standing } from './payments.ts';
import { escaped } from './text.ts';

/** A page that waits for the bank asks again by itself. */
export const REFRESH = '<meta http-equiv="refresh" content="3">';

export function startPage(baskets: ReadonlyMap<string, readonly OrderLine[]>): string {
  const buttons = [...baskets].map(([basket, lines]) => {
    const { amount, currency } = sumOf(lines);
    return `<button name="basket" value="${escaped(basket)}">${escaped(`${basket}, ${amount} ${currency}`)}</button>`;
  });
  return page('Shop', `<form method="post" action="/orders">${buttons.join('')}</form>`);
}

/** The address names the order, so a reload, the back button and a second tab are about the same one. */
export function orderPage(order: Order, { text, isWaiting }: Standing, acts: string): string {
  const { price } = order;
  const bought = `${articlesOf(order).join(' and ')}: ${price.amount} ${price.currency}`;
  const content = `<p>${escaped(bought)}</p><p role="status">${escaped(text)}</p>`;
  return page('Your order', content + acts, isWaiting && REFRESH);
}

/** The buttons of the payer: pay, or go to the bank and come back, or take another card. */
export function payersActs({ id }: Order, { button, attempt, mayEnd, bankUrl }: Standing, cards: Cards): string {
  if (attempt === undefined) return '';
  const { fields, script } = cards;
  const form = (path: string, text: string, more = '') =>
    `<form method="post" action="/orders/${id}${path}">${more}<button name="attempt" value="${attempt}">${text}</button></form>`;
  return [
    bankUrl ? `<p><a href="${escaped(bankUrl)}">Confirm at your bank</a></p>` : '',
    button === undefined ? '' : form('', button, fields) + script,
    mayEnd ? form('/another-card', 'Another card') : '',
  ].join('');
}

export const page = (title: string, content: string, head = '') =>
  `<!doctype html><html lang="en"><meta charset="utf-8">${head}<title>${title}</title><h1>${title}</h1>${content}</html>`;
