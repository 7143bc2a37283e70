-- After a write: lifts its mark. The last mark to be lifted stores the newest version that any of them wrote, unless one
-- of them ended without a certain one. A mark that is no longer there, or was put under another source (it expired, the
-- server was restarted, a replica took its place, or the database was replaced), did not protect until now: then nothing
-- is stored, and the next reader asks the store of record.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 token of the mark, 2 version ('' nothing certain), 3 transaction, 4 life of the entry in ms, 5 epoch and database server,
--       6 masters of the epoch
-- Returns: 1 the mark stood, 0 it did not
local source = source_of(ARGV[5], ARGV[6])
local field = 'mark:' .. ARGV[1]
redis.call('DEL', KEYS[1], KEYS[2])
local mark = redis.call('HGET', KEYS[3], field)
local stood = mark and string.match(mark, '^%d+ (.*)$') == source and 1 or 0
redis.call('HDEL', KEYS[3], field)
if redis.call('EXISTS', KEYS[3]) == 0 and (stood == 0 or ARGV[2] == '') then return stood end

local newest = redis.call('HGET', KEYS[3], 'newest')
if stood == 0 or ARGV[2] == '' then
  newest = 'none'
  redis.call('HSET', KEYS[3], 'newest', newest)
elseif newest ~= 'none' and (not newest or tonumber(newest) < tonumber(ARGV[2])) then
  newest = ARGV[2]
  redis.call('HSET', KEYS[3], 'newest', newest, 'transaction', ARGV[3])
end

local results = redis.call('HEXISTS', KEYS[3], 'newest') + redis.call('HEXISTS', KEYS[3], 'transaction')
if redis.call('HLEN', KEYS[3]) > results then return stood end

if newest ~= 'none' then
  local transaction = redis.call('HGET', KEYS[3], 'transaction')
  redis.call('HSET', KEYS[1], 'source', source, 'version', newest, 'transaction', transaction)
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
redis.call('DEL', KEYS[3])
return stood
