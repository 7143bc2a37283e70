/** The permissions of a client (rule A4). `operations` may also see every client's payments. */
export const SCOPES = [
  'payments:write',
  'payments:read',
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
