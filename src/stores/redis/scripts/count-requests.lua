-- Notes how many requests of a client one process has served in the present window, and sums up those of all.
-- KEYS: 1 the client's counts, one field for each process
-- ARGV: 1 process, 2 its requests, 3 the life in ms of a window that begins with this
-- Returns: {requests of all processes, ms to the end of the window}
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local remaining = redis.call('PTTL', KEYS[1])
if remaining < 0 then
  remaining = tonumber(ARGV[3])
  redis.call('PEXPIRE', KEYS[1], remaining)
end
local total = 0
for _, taken in ipairs(redis.call('HVALS', KEYS[1])) do total = total + taken end
return {total, remaining}
