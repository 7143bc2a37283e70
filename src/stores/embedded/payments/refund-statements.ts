/** Raises the sum of a payment, which the same commit has found to be refundable. */
export const RAISE_SUM = 'UPDATE payments SET refunded = coalesce(refunded, 0) + ? WHERE key = ?';

/** The statement has no ON CONFLICT, so that a second row of a refund fails and takes back the sum that its claim raised. */
export const INSERT_REFUND = `
  INSERT INTO payments (key, transaction_id, amount, currency, fingerprint, client, processor, epoch, owner, lease_until, recover_at, claimed_at,
    claimed_at_wall, state, refund_of, refund_name, refund_units, refund_reason, refund_charge_id)
  VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, 'PROCESSING', ?, ?, ?, ?, ?)`;

/** `?1` is the key of a refund that was made with another amount than its row has, and `?2` that amount in minor units. */
export const MOVE_SUM = `
  UPDATE payments SET refunded = refunded + ?2 - (SELECT refund_units FROM payments WHERE key = ?1)
  WHERE key = (SELECT refund_of FROM payments WHERE key = ?1)`;
export const SET_REFUND_UNITS = 'UPDATE payments SET refund_units = ?2 WHERE key = ?1';

/** `?1` is the key of a refund that the same commit has declined: the sum is lower by the amount of that row. */
export const LOWER_SUM = `
  UPDATE payments SET refunded = refunded - (SELECT refund_units FROM payments WHERE key = ?1)
  WHERE key = (SELECT refund_of FROM payments WHERE key = ?1)`;
