-- Removes samples that are too old, appends one, and keeps at most ARGV[3]; both limits are approximate (whole nodes of the stream).
-- A server that does not know MINID, or does not permit one of these commands, fails before the sample is written.
-- KEYS: 1 the samples
-- ARGV: 1 sample, 2 how long one is kept in ms, 3 how many at most
-- Returns: 1
local now = redis.call('TIME')
redis.call('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f', now[1] * 1000 - ARGV[2]))
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'sample', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
