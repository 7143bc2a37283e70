-- Issues a key: the record with its first value, unless it is there already.
-- KEYS: 1 record
-- ARGV: 1 first value, 2 life in ms, 3 the client whose key it is ('' everybody's)
-- Returns: 1 issued, 0 it was there
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'client', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
