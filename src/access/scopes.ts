/** The permissions of a client (rule A4). `operations` and `payments:read:all` also see every client's payments; the latter changes none. */
export const SCOPES = [
  'payments:write',
  'payments:read',
  'payments:read:all',
  'refunds:write',
  'transactions:read',
  'transactions:write',
  'operations',
  'metrics',
] as const;
export type Scope = (typeof SCOPES)[number];

export function isScope(name: unknown): name is Scope {
  return (SCOPES as readonly unknown[]).includes(name);
}
