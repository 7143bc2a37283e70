-- Deletes a lock for its owner. A marked one is announced.
-- KEYS: 1 lock
-- ARGV: 1 owner, 2 channel
-- Returns: 1 deleted, 0 it is not the owner's
local lock = redis.call('HMGET', KEYS[1], 'owner', 'marked')
if lock[1] ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
-- Best effort: without the right to publish, or with nobody listening, everything else is done all the same.
if lock[2] then redis.pcall('PUBLISH', ARGV[2], KEYS[1]) end
return 1
