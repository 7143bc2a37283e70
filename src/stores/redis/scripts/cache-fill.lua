-- Stores what the token's holder read, if the token still lives, under the same source (see cache-look-up.lua), and
-- nothing newer is there.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 token, 2 version, 3 transaction, 4 life of the entry in ms, 5 epoch and database server,
--       6 masters of the epoch
-- Returns: 1 stored, 0 refused
local source = source_of(ARGV[5], ARGV[6])
local held = redis.call('HMGET', KEYS[2], 'token', 'source')
if held[1] ~= ARGV[1] or held[2] ~= source then return 0 end
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local entry = redis.call('HMGET', KEYS[1], 'source', 'version')
if entry[1] == source and tonumber(entry[2]) >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'source', source, 'version', ARGV[2], 'transaction', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
