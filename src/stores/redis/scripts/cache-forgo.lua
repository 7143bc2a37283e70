-- Gives a fill token back unused.
-- KEYS: 1 fill token
-- ARGV: 1 token
-- Returns: 1 given back, 0 it was void
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
