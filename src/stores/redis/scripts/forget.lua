-- Deletes a record, and the lock if it is the owner's: the payment was closed, and its row alone answers.
-- KEYS: 1 record, 2 lock
-- ARGV: 1 owner, 2 channel
-- Returns: 1
local lock = redis.call('HMGET', KEYS[2], 'owner', 'watched')
if lock[1] == ARGV[1] then redis.call('DEL', KEYS[2]) end
-- Best effort: a server that does not let us publish has forgotten the key all the same.
if lock[2] then redis.pcall('PUBLISH', ARGV[2], KEYS[2]) end
redis.call('DEL', KEYS[1])
return 1
