import { computedKeyOf, partOf } from './computed-key.js';

/** The part of an operation that gives money back: a claim, or a row, that has it is a refund, and otherwise a payment (rule P26). */
export interface RefundPart {
  /** The key of the payment that was charged. */
  readonly payment: string;
  /** The caller's name of this refund, one of its payment's. */
  readonly name: string;
  readonly reason?: string | undefined;
  /** The processor's own name of the charge. */
  readonly chargeId?: string | undefined;
}

/** Makes the key of a refund: always the same one for a payment and a name in one deployment, a UUIDv8. */
export type ComputeRefundKey = (paymentKey: string, name: string) => string;

/** This prefix keeps the texts of refunds apart from the texts of references, which begin with a number. */
const DOMAIN = 'refund';

/** The key of a refund is made as `createComputeKey` makes the key of a reference. docs/reference/refunds.md has a test vector. */
export function createComputeRefundKey(deploymentId: string): ComputeRefundKey {
  const start = DOMAIN + partOf(deploymentId);
  return (paymentKey, name) => computedKeyOf(start + partOf(paymentKey) + partOf(name));
}
