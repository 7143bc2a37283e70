-- Lengthens a lock for its owner.
-- KEYS: 1 lock
-- ARGV: 1 owner, 2 lease in ms
-- Returns: 1 renewed, 0 it is not the owner's
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
