-- Additive: a version that does not know the column leaves out its own steps, which are then missing in timelines.
-- What became of a payment beyond one attempt that claims and settles it, a line each, for its timeline (docs/decisions/0054):
-- takeovers, attempts that were given up, what a takeover found out. NULL where there was nothing more, as of every ordinary
-- payment. Bounded by the function, and by no CHECK: a full list must not keep a payment from going on.
ALTER TABLE idempay.payments ADD COLUMN events text;

-- Appends a line, as `withEvent` in `payment-events.ts` does: the first 8 and the last 40 are kept, and between them a line
-- counts those that were left out.
CREATE FUNCTION idempay.with_event(events text, event text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  lines   text[]  := array_append(string_to_array(events, E'\n'), event);
  omitted integer := 0;
  surplus integer;
BEGIN
  IF cardinality(lines) <= 48 THEN
    RETURN array_to_string(lines, E'\n');
  END IF;
  IF lines[9] LIKE 'omitted %' THEN
    omitted := substr(lines[9], 9)::integer;
    lines := lines[:8] || lines[10:];
  END IF;
  surplus := greatest(0, cardinality(lines) - 48);
  RETURN array_to_string(lines[:8] || ('omitted ' || omitted + surplus) || lines[9 + surplus:], E'\n');
END $$;
