/** Stripe's answer, or the reason why nothing can be known of it. */
export type Reply =
  | { readonly state: 'answered'; readonly status: number; readonly body: Readonly<Record<string, unknown>> }
  | { readonly state: 'lost'; readonly cause: string };

export type Parameters = Readonly<Record<string, string>>;

export interface Stripe {
  get(path: string, parameters: Parameters, deadline: AbortSignal): Promise<Reply>;
  /**
   * Stripe carries out a POST once for each key, for at least 24 hours. A key belongs to one path and one set of parameters. Without a key,
   * each POST is carried out.
   */
  post(path: string, parameters: Parameters, idempotencyKey: string | undefined, deadline: AbortSignal): Promise<Reply>;
}

/** The version that the answers are read by; a newer default of the account changes nothing here. */
const API_VERSION = '2025-03-31.basil';

/** Each call is sent once. Never rejects. */
export function createStripe({ url, secretKey }: { url: string; secretKey: string }): Stripe {
  async function send(path: string, init: RequestInit): Promise<Reply> {
    try {
      const response = await fetch(`${url}${path}`, { ...init, redirect: 'error' });
      const body: unknown = await response.json();
      if (typeof body !== 'object' || body === null) return { state: 'lost', cause: `${response.status} without JSON` };
      return { state: 'answered', status: response.status, body: body as Record<string, unknown> };
    } catch (fault) {
      const { message, cause } = fault as Error;
      return { state: 'lost', cause: cause instanceof Error ? `${message}: ${cause.message}` : message };
    }
  }

  const headers = { authorization: `Bearer ${secretKey}`, 'stripe-version': API_VERSION };
  return {
    get: (path, parameters, signal) => send(`${path}?${new URLSearchParams(parameters)}`, { headers, signal }),
    post: (path, parameters, idempotencyKey, signal) =>
      send(path, {
        method: 'POST',
        headers: { ...headers, ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }) },
        body: new URLSearchParams(parameters),
        signal,
      }),
  };
}
