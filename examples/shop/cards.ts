import { escaped } from './text.ts';

/** The fields that the form of an order has besides its button, so that the payer chooses a card. */
export interface Cards {
  /** True if an order is paid with a source. Without one the processor must know by itself who pays. */
  readonly areAsked: boolean;
  readonly fields: string;
  /** The text after the form. */
  readonly script: string;
}

const PUBLISHABLE_KEY = /^pk_test_\w+$/;

/**
 * `testCards` is JSON such as `{"pm_card_visa":"works"}`, for a processor that takes such names. With Stripe's `publishableKey` the page loads
 * Stripe's script, so that the card goes from the browser to Stripe, and the shop gets a name for it. If both are undefined, there is only
 * a button.
 */
export function cardsOf(testCards: string | undefined, publishableKey: string | undefined): Cards {
  if (publishableKey) {
    if (!PUBLISHABLE_KEY.test(publishableKey))
      throw new Error('STRIPE_PUBLISHABLE_KEY must be one for tests: pk_test_...');
    return { areAsked: true, fields: STRIPE_FIELDS, script: stripeScript(publishableKey) };
  }
  if (!testCards) return { areAsked: false, fields: '', script: '' };
  const cards = Object.entries(JSON.parse(testCards) as Record<string, string>);
  const options = cards.map(([name, what]) => `<option value="${escaped(name)}">A card that ${escaped(what)}</option>`);
  return {
    areAsked: true,
    fields: `<label>Card <select name="source">${options.join('')}</select></label>`,
    script: '',
  };
}

const STRIPE_FIELDS = '<div id="card"></div><p id="card-problem" role="alert"></p><input type="hidden" name="source">';

/** The form is sent a second time, with the name that Stripe gave for the card. Two clicks may get two names: the first one is charged. */
const stripeScript = (publishableKey: string) => `<script src="https://js.stripe.com/v3/"></script><script>
const stripe = Stripe('${publishableKey}');
const card = stripe.elements().create('card');
card.mount('#card');
document.addEventListener('submit', async (event) => {
  const { target: form, submitter: button } = event;
  if (form.elements.source.value) return;
  event.preventDefault();
  const { paymentMethod, error } = await stripe.createPaymentMethod({ type: 'card', card });
  document.getElementById('card-problem').textContent = error?.message ?? '';
  if (!paymentMethod) return;
  form.elements.source.value = paymentMethod.id;
  form.requestSubmit(button);
});
</script>`;
