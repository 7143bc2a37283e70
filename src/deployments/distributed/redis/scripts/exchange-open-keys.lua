-- Closes keys, then opens as many of the wanted ones as there is room for. Keys are counted by parts of their life.
-- KEYS: 1 the counts, one field for each part
-- ARGV: 1 most keys, 2 oldest part that counts, 3 life of the counts in ms, 4 number of pairs that close,
--       then pairs of part and keys: those that close, then those that are wanted
-- Returns: keys opened
local most, oldest, closing = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local total, opened = 0, 0
local counts = redis.call('HGETALL', KEYS[1])
for i = 1, #counts, 2 do
  if tonumber(counts[i]) < oldest then
    redis.call('HDEL', KEYS[1], counts[i])
  else
    total = total + tonumber(counts[i + 1])
  end
end
for i = 5, #ARGV, 2 do
  local keys = tonumber(ARGV[i + 1])
  if i < 5 + 2 * closing then
    if tonumber(ARGV[i]) < oldest then keys = 0 else keys = -keys end
  else
    keys = math.max(0, math.min(keys, most - total))
    opened = opened + keys
  end
  if keys ~= 0 then redis.call('HINCRBY', KEYS[1], ARGV[i], keys) end
  total = total + keys
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return opened
