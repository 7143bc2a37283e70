-- Remembers how far the log of a database server was seen to be written.
-- KEYS: 1 position
-- ARGV: 1 position that was seen, in bytes
-- Returns: the highest that was ever seen
local highest = redis.call('HGET', KEYS[1], 'bytes')
if highest and tonumber(highest) >= tonumber(ARGV[1]) then return highest end
redis.call('HSET', KEYS[1], 'bytes', ARGV[1])
return ARGV[1]
