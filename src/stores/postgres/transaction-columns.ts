/** Counts leave the database as text, because as numbers large ones would not be exact; ids have 15 digits and are. */
export const TRANSACTION_COLUMNS = `
  id::float8 AS id, from_account, to_account, amount::text AS amount, status, version,
  floor(extract(epoch FROM created_at) * 1000)::float8 AS created_at`;
