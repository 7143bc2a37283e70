/** What the clocks of a simulated machine read at its beginning. */
export const EPOCH_MS = 1_700_000_000_000;

/** The key (a UUIDv7) that the client with this number is given at a moment. */
export function keyOf(client: number, ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(client).padStart(12, '0')}`;
}

/** What a key is called in plans and traces; anything else keeps its name. */
export function nameOf(key: string): string {
  const [, client] = /-7000-8000-(\d{12})$/.exec(key) ?? [];
  return client === undefined ? key : `k${Number(client)}`;
}
