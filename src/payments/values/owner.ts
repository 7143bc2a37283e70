/** The parts of an owner's name. */
export interface OwnerParts {
  readonly process: string;
  /** The client that asked for the change. Undefined for payments, whose row has their client, and for the work of the service itself. */
  readonly by: string | undefined;
}

/**
 * The name of an execution: the process, a number in it and, for a change that somebody asks for, the client that asks. Rows and their events
 * keep it, so they tell who has resolved, cancelled or refunded something.
 */
export function ownerName(process: string, execution: number, by: string | undefined): string {
  const name = `${process}:${execution}`;
  return by === undefined ? name : `${name}:${encodeURIComponent(by)}`;
}

export function ownerParts(owner: string): OwnerParts {
  const [, process, by] = /^(.*?):\d+(?::(.*))?$/.exec(owner) ?? [];
  return { process: process ?? owner, by: by === undefined ? undefined : decodeURIComponent(by) };
}
