/** The decision that rows which were written without credentials stay without a client. No client has this name, because each has a prefix. */
export const NOBODY = 'nobody';

/**
 * Before a decision: how the first order was paid in a store that several processes share. An order with credentials has another key than
 * without, so processes of both kinds would charge it twice. No client has these names either.
 */
export const MARKS = { none: 'everybody', required: 'clients' } as const;

/** How a service tells its callers apart: the setting AUTH. */
export type AccessKind = keyof typeof MARKS;

/** Decides to whom the orders belong that were written without credentials, as a store had it when it was opened. */
export interface Adoption {
  /** The client that adopted them, or NOBODY; before a decision one of MARKS. Undefined if there is no mark either. */
  readonly adopter: string | undefined;
  /** There are orders without a client. */
  readonly hasOrders: boolean;
  /** True if there are orders of clients. It looks only when asked, because with credentials nothing depends on it. */
  hasOrdersOfClients(): Promise<boolean>;
}

/** The client that adopted, or NOBODY; undefined if nothing was decided. */
export function decisionIn(adopter: string | null | undefined): string | undefined {
  return adopter === MARKS.none || adopter === MARKS.required ? undefined : (adopter ?? undefined);
}

/** The client whose references are computed as references without credentials; undefined if there is none. */
export function adoptingClient(adopter: string | null | undefined): string | undefined {
  return adopter === NOBODY ? undefined : decisionIn(adopter);
}

/**
 * Why a service must not start with this access, in one sentence: references would be computed in another way than those that are paid, so
 * that the same orders would be charged again. `place`: the store, in words.
 */
export async function accessRefusal(
  access: AccessKind,
  { adopter, hasOrders, hasOrdersOfClients }: Adoption,
  place: string,
): Promise<string | undefined> {
  const decision = decisionIn(adopter);
  if (access === 'none') {
    if (decision !== undefined) {
      return `Everything in ${place} that was written without credentials belongs to ${decision} since 'idempay adopt'. Set AUTH=required, or name another store.`;
    }
    if (adopter !== MARKS.required && !(await hasOrdersOfClients())) return undefined;
    return `Orders in ${place} were paid with credentials, and without AUTH each of them would be a new order, and charged again. Set AUTH=required, or name another store.`;
  }
  if (decision !== undefined || (adopter !== MARKS.none && !hasOrders)) return undefined;
  return `Orders in ${place} were paid without credentials, and with AUTH=required each of them would be a new order, and charged again. Stop every service on it and run 'idempay adopt key:NAME' with the client that goes on with them, or 'idempay adopt ${NOBODY}' if they may all be paid again.`;
}

/** The state of a store before a client adopts the rows that have no client. */
export interface Adoptable {
  readonly adopter: string | null;
  /** It has orders of its own. */
  readonly hasReferences: boolean;
}

/** Why this client cannot adopt, in one sentence. Undefined if it may, and `done` if it did so before. */
export function adoptionRefusal(client: string, found: Adoptable): string | 'done' | undefined {
  const adopter = decisionIn(found.adopter);
  if (adopter === client) return 'done';
  if (adopter === NOBODY) {
    return `It was decided that what was written without credentials belongs to nobody: orders of clients have been paid since, which ${client} cannot go on with any more. Nothing was changed.`;
  }
  if (adopter !== undefined) {
    return `${adopter} has adopted what was written without credentials, and only one client can. Nothing was changed.`;
  }
  if (!found.hasReferences || client === NOBODY) return undefined;
  return `${client} has orders of its own, which would be new and charged again if its references were computed in another way. Nothing was changed. Name a client that has none.`;
}
