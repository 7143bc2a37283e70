import { StoreUnavailable } from '../../../platform/faults.js';

/** The words of ioredis for a command without a connection name one of its options. */
const NOT_CONNECTED = /enableOfflineQueue options is false/;

/** Errors of commands that were never sent: ioredis found no connection, or no node that has the slot. */
const NEVER_SENT =
  /enableOfflineQueue options is false|redirections|slots allocation group|slots cache|None of startup nodes/;

/**
 * Refused by the server or never sent: nothing was done. Everything else, above all a connection that was lost while the
 * answer was awaited, is unknown; ioredis words that in many ways.
 */
export function redisFault(error: unknown): StoreUnavailable {
  const message = messageOf(error);
  const refused = (error as Error).name === 'ReplyError' || NEVER_SENT.test(message) || error instanceof TypeError;
  const reason = NOT_CONNECTED.test(message) ? 'it is not connected' : message;
  return new StoreUnavailable(refused ? 'unchanged' : 'unknown', `Redis: ${reason}`, withoutCommand(error));
}

/** Removes the command that ioredis adds to an error: the command of a refused log-in holds the password, which must not be logged. */
export function withoutCommand<E>(error: E): E {
  const { lastNodeError } = error as { lastNodeError?: unknown };
  for (const each of [error, lastNodeError]) if (each instanceof Error) delete (each as { command?: unknown }).command;
  return error;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
