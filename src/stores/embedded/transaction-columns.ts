/** The amount is read as text: as a number, a large count of ten-thousandths would not be exact. */
export const TRANSACTION_COLUMNS =
  'id, from_account, to_account, CAST(amount AS TEXT) AS amount, status, version, created_at';
