-- Before a write commits: drops the entry, voids the fill token, and puts a mark, which counts only under the source that
-- it was put under (see cache-look-up.lua): another master may bring an old mark back, and knows nothing of the writes
-- between. Each mark has a life of its own. One that is over belonged to a write that has ended before this one begins,
-- so it is removed: a writer that died must not hinder the writes after it.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 token of the mark, 2 life of a mark in ms, 3 epoch and database server, 4 masters of the epoch
-- Returns: 1
local source = source_of(ARGV[3], ARGV[4])
redis.call('DEL', KEYS[1], KEYS[2])

local marks = redis.call('HGETALL', KEYS[3])
local standing = 0
local foreign = false
for field = 1, #marks, 2 do
  local ends, other = string.match(marks[field + 1], '^(%d+) (.*)$')
  if string.sub(marks[field], 1, 5) == 'mark:' then
    if tonumber(ends) <= now() then
      redis.call('HDEL', KEYS[3], marks[field])
    else
      standing = standing + 1
      foreign = foreign or other ~= source
    end
  end
end
if standing == 0 then redis.call('DEL', KEYS[3]) end
-- Versions of rows that were read from different servers cannot be compared.
if foreign then redis.call('HSET', KEYS[3], 'newest', 'none') end

redis.call('HSET', KEYS[3], 'mark:' .. ARGV[1], string.format('%.0f', now() + ARGV[2]) .. ' ' .. source)
if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[3], ARGV[2]) end
return 1
