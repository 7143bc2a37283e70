-- Looks an entry up; on a miss hands out the one fill token, unless a write mark stands or another reader has it.
-- Entries and tokens count only under the master they were written by: its replication id, which a server gets anew
-- whenever it starts or is promoted. So what a restart from disk or a failover brings back is a miss, also on a server
-- that was master before. A replica repeats its master's id, late, and is refused.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 new token, 2 life of a token in ms
-- Returns: {'hit', transaction} | {'load'} (the token is ours) | {'wait'} (another loads) | {'pass'} (a mark stands)
local replication = redis.call('INFO', 'replication')
if not string.find(replication, 'role:master', 1, true) then return redis.error_reply('READONLY no cache on a replica') end
local run = string.match(replication, 'master_replid:(%w+)')
local entry = redis.call('HMGET', KEYS[1], 'run', 'transaction')
if entry[1] == run then return {'hit', entry[2]} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'pass'} end
local held = redis.call('HGET', KEYS[2], 'run')
if held == run then return {'wait'} end
redis.call('HSET', KEYS[2], 'run', run, 'token', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {'load'}
