-- Remembers what a process has written last to the database.
-- KEYS: 1 last commits
-- ARGV: 1 process, 2 number of its text, 3 text, which begins with the number, then pairs: another process and its text that is no longer needed
-- Returns: 1
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known or tonumber(string.match(known, '^%d+')) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
for ended = 4, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[ended]) == ARGV[ended + 1] then redis.call('HDEL', KEYS[1], ARGV[ended]) end
end
return 1
