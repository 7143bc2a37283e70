-- Gives the record its final value, and deletes the lock if it is the owner's. Watchers of the lock are notified in any
-- case, because the payment is final. The lock goes first: a server that is out of memory refuses the value, but not the
-- end of a lock, and nothing after that is refused inside a script.
-- KEYS: 1 record, 2 lock
-- ARGV: 1 owner, 2 value, 3 fingerprint, 4 reason, 5 expires at (ms since the epoch), 6 channel,
--       7 the client whose key it is ('' everybody's)
-- Returns: 1, or 0 where the lock of another owner stands
local lock = redis.call('HMGET', KEYS[2], 'owner', 'watched')
if lock[1] == ARGV[1] then redis.call('DEL', KEYS[2]) end
-- Best effort: a server that does not let us publish finishes the payment all the same.
if lock[2] then redis.pcall('PUBLISH', ARGV[6], KEYS[2]) end
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'fingerprint', ARGV[3], 'reason', ARGV[4], 'expires_at', ARGV[5],
  'client', ARGV[7])
redis.call('PEXPIREAT', KEYS[1], ARGV[5])
if lock[1] and lock[1] ~= ARGV[1] then return 0 end
return 1
