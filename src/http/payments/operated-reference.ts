import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Access } from '../../access/access.js';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import type { Reference } from '../../payments/values/reference.js';
import { publicErrors } from '../errors/public-errors.js';
import { clientOf } from '../requests/request-limit-hook.js';

/** Percent-encoded, because a token may name a client in any alphabet. */
export const CLIENT_HEADER = 'idempay-client';

/**
 * Judges whose reference an operator means, before anything is asked of its payment. Rejects with the refusal. Undefined for every other
 * caller, which means its own.
 */
export type JudgeOwner = (
  request: FastifyRequest,
  reply: FastifyReply,
  reference: Reference | undefined,
) => Promise<void> | undefined;

export function createJudgeOwner(access: Access | undefined, records: Pick<PaymentRecords, 'newestOf'>): JudgeOwner {
  /** A name with a mistake in it would close nothing, and be answered as if it had. */
  async function refuseUnknown(request: FastifyRequest, client: string): Promise<void> {
    if (client === request.caller?.client || access?.clients().includes(client)) return;
    if (!(await records.newestOf({ client, reader: clientOf(request) }))) throw publicErrors.unknownClient();
  }

  /** An operator that pays too may have forgotten to name the client: its own order of this number would be closed, and the other one paid. */
  async function refuseOthers(request: FastifyRequest, reference: string, client: string): Promise<void> {
    const reader = clientOf(request);
    if (await records.newestOf({ reference, client, reader })) return;
    const other = await records.newestOf({ reference, reader });
    if (other) throw publicErrors.referenceOfAnotherClient(client, other.client);
  }

  return (request, reply, reference) => {
    const { caller, query } = request;
    if (reference?.client === undefined || !caller?.scopes.has('operations')) return undefined;
    const { text, client } = reference;
    const isNamed = (query as Readonly<Record<string, unknown>>).client !== undefined;
    const judged = isNamed ? refuseUnknown(request, client) : refuseOthers(request, text, client);
    return judged.then(() => void reply.header(CLIENT_HEADER, encodeURI(client)));
  };
}
