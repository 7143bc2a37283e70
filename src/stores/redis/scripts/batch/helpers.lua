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

-- The source of what is in the cache (see cache-look-up.lua): this master, and what the caller names: epoch and database server. A
-- replica repeats its master's id, late, and is refused. So is a master that is not in the caller's epoch.
local function source_of(epoch_and_database, masters)
  if not replication_id then
    local replication = redis.call('INFO', 'replication')
    if not string.find(replication, 'role:master', 1, true) then error({err = 'READONLY no cache on a replica'}) end
    replication_id = string.match(replication, 'master_replid:(%w+)')
  end
  if not string.find(masters, replication_id, 1, true) then error({err = 'OTHERMASTER the cache is in another master'}) end
  return replication_id .. ' ' .. epoch_and_database
end
