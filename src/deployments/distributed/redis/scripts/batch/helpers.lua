-- What the scripts have in common. It does not change while they run, so the server is asked once for all calls of a batch.
local milliseconds, replication_id

-- The server's wall clock, in ms since the epoch.
local function now()
  if not milliseconds then
    local time = redis.call('TIME')
    milliseconds = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return milliseconds
end

-- The source of what is in the cache (see cache-look-up.lua): this master and that database server. A replica repeats its
-- master's id, late, and is refused.
local function source_of(database_server)
  if not replication_id then
    local replication = redis.call('INFO', 'replication')
    if not string.find(replication, 'role:master', 1, true) then error({err = 'READONLY no cache on a replica'}) end
    replication_id = string.match(replication, 'master_replid:(%w+)')
  end
  return replication_id .. ' ' .. database_server
end
