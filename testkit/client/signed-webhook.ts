import { Webhook } from 'standardwebhooks';

/** The example of the library of Standard Webhooks. */
export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

/** A message as its endpoint gets it, signed by the library of Standard Webhooks with each of the secrets. */
export function signedWebhook(
  id: string,
  body: string,
  { secrets = [SECRET], atMs = Date.now() }: { readonly secrets?: readonly string[]; readonly atMs?: number } = {},
) {
  const signatures = secrets.map((secret) => new Webhook(secret).sign(id, new Date(atMs), body));
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': `${Math.floor(atMs / 1_000)}`,
    'webhook-signature': signatures.join(' '),
  };
  return { headers, body };
}
