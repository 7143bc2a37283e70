-- Gives the record its final value, whatever the lock says, and deletes the lock if it is the owner's.
-- KEYS: 1 record, 2 lock
-- ARGV: 1 owner, 2 value, 3 fingerprint, 4 reason, 5 expires at (ms since the epoch)
-- Returns: 1
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'fingerprint', ARGV[3], 'reason', ARGV[4], 'expires_at', ARGV[5])
redis.call('PEXPIREAT', KEYS[1], ARGV[5])
if redis.call('HGET', KEYS[2], 'owner') == ARGV[1] then redis.call('DEL', KEYS[2]) end
return 1
