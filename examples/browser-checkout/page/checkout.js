import { DeadKeyError, DeclinedError, Idempay, MismatchError, UnknownOutcomeError } from '/idempay-client/index.js';

const UNRESOLVED =
  'It is not known whether you have paid. We look for your payment, and you need not pay again. Your order: ';

const id = location.pathname.split('/').at(-1);
const button = document.querySelector('#pay');
const outcome = document.querySelector('#outcome');
let order = await readOrder();

document.querySelector('#price').textContent = `${order.price.amount} ${order.price.currency}`;
button.addEventListener('click', pay);
if (order.transactionId) show(`Paid: ${order.transactionId}`, false);
else if (order.isUnresolved) show(UNRESOLVED + id, false);
// The page was left in the middle of a payment: it goes on, with the key of this attempt.
else if (order.hasBegun) await pay();
else show('', true);

async function pay() {
  show('Paying ...', false);
  const baseUrl = `${location.origin}/orders/${id}/payments/${order.attempt}`;
  try {
    const { transactionId } = await new Idempay({ baseUrl }).payments.pay(order.price);
    show(`Paid: ${transactionId}`, false);
  } catch (error) {
    // One of the UnknownOutcomeErrors, so it is asked for first: another click does not help.
    if (error instanceof DeadKeyError) return show(UNRESOLVED + id, false);
    if (error instanceof UnknownOutcomeError) return show('Not known yet. Click again: you pay once only.', true);
    if (error instanceof MismatchError)
      return show('Another amount is being paid for this order. Reload the page.', false);
    // The next click is another attempt, and has another number.
    if (error instanceof DeclinedError) order = await readOrder();
    show(error.message, true);
  }
}

async function readOrder() {
  return (await fetch(`/orders/${id}`)).json();
}

function show(text, mayPay) {
  outcome.textContent = text;
  button.disabled = !mayPay;
}
