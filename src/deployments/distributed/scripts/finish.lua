-- Gives the record its final value, whatever the lock says, and deletes the lock if it is the owner's. A marked lock is
-- announced, also one of another owner: whoever waits for it finds a payment that is final.
-- KEYS: 1 record, 2 lock
-- ARGV: 1 owner, 2 channel, 3 value, 4 fingerprint, 5 reason, 6 expires at (ms since the epoch)
-- Returns: 1
redis.call('HSET', KEYS[1], 'value', ARGV[3], 'fingerprint', ARGV[4], 'reason', ARGV[5], 'expires_at', ARGV[6])
redis.call('PEXPIREAT', KEYS[1], ARGV[6])
local lock = redis.call('HMGET', KEYS[2], 'owner', 'marked')
if lock[1] == ARGV[1] then redis.call('DEL', KEYS[2]) end
-- Best effort: without the right to publish, or with nobody listening, everything else is done all the same.
if lock[2] then redis.pcall('PUBLISH', ARGV[2], KEYS[2]) end
return 1
