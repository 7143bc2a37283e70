import { articlesOf, type Order, type OrderLine } from '../shop/orders.ts';
import { page, REFRESH } from '../shop/pages.ts';
import { escaped } from '../shop/text.ts';
import type { Return } from './returns.ts';

export function ordersPage(orders: readonly Order[]): string {
  const items = orders.map(
    (order) =>
      `<li><a href="/orders/${order.id}">${escaped(`${articlesOf(order).join(' and ')}, ${moneyOf(order)}`)}</a>: ${order.end ?? 'open'}</li>`,
  );
  return page('Orders', `<ul>${items.join('')}</ul>`);
}

/** Each line has the state of its refund, or a button. The button has the number of the line, which names the refund. */
export function returnsPage(order: Order, returns: ReadonlyMap<number, Return>): string {
  const items = order.lines.map((line, at) => {
    const returned = returns.get(at + 1);
    const said = returned ? `<span role="status">${escaped(returned.text)}</span>` : '';
    return `<li>${escaped(`${line.article}, ${moneyOf(line)}`)} ${said}${buttonOf(order, at + 1, returned)}</li>`;
  });
  const isUnderWay = [...returns.values()].some(({ state }) => state === 'under way');
  return page('Lines of an order', `<ol>${items.join('')}</ol><a href="/">Orders</a>`, isUnderWay ? REFRESH : '');
}

function buttonOf({ id, end }: Order, line: number, returned: Return | undefined): string {
  if (end !== 'paid' || (returned && returned.state !== 'refused')) return '';
  return `<form method="post" action="/orders/${id}/returns"><button name="line" value="${line}">Give back</button></form>`;
}

const moneyOf = ({ price: { amount, currency } }: Order | OrderLine) => `${amount} ${currency}`;
