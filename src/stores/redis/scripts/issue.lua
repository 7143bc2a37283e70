-- Issues a key: the record with its first value, unless it is there already. One that has no outcome yet lives for as long again.
-- KEYS: 1 record
-- ARGV: 1 first value, 2 life in ms, 3 the client whose key it is ('' everybody's), and of a computed key: 4 reference, 5 attempt
-- Returns: 1 issued, 0 it was there
local value = redis.call('HGET', KEYS[1], 'value')
if value then
  if value == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0
end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'client', ARGV[3])
if ARGV[4] then redis.call('HSET', KEYS[1], 'reference', ARGV[4], 'attempt', ARGV[5]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
