-- What became of a payment beyond one attempt that claims and settles it, a line each, for its timeline (docs/decisions/0054):
-- takeovers, attempts that were given up, what a takeover found out. NULL where there was nothing more, as of every ordinary
-- payment. Bounded where it is appended to (`payment-events.ts`), and by no CHECK: a full list must not keep a payment from going on.
ALTER TABLE payments ADD COLUMN events TEXT;
