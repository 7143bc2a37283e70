-- Deletes a lock for its owner. The end of a watched one is announced.
-- KEYS: 1 lock
-- ARGV: 1 owner, 2 channel
-- Returns: 1 deleted, 0 it is not the owner's
local lock = redis.call('HMGET', KEYS[1], 'owner', 'watched')
if lock[1] ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
-- Best effort: a server that does not let us publish has deleted the lock all the same.
if lock[2] then redis.pcall('PUBLISH', ARGV[2], KEYS[1]) end
return 1
