-- Deletes a lock for its owner.
-- KEYS: 1 lock
-- ARGV: 1 owner
-- Returns: 1 deleted, 0 it is not the owner's
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
