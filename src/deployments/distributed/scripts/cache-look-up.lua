-- Looks an entry up; on a miss hands out the one fill token, unless a write mark stands or another reader has it.
-- Entries and tokens count only under the run id of the server they were written by: what a restart from disk or a
-- failover brings back is a miss.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 new token, 2 life of a token in ms
-- Returns: {'hit', transaction} | {'load'} (the token is ours) | {'wait'} (another loads) | {'pass'} (a mark stands)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local entry = redis.call('HMGET', KEYS[1], 'run', 'transaction')
if entry[1] == run then return {'hit', entry[2]} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'pass'} end
local held = redis.call('HGET', KEYS[2], 'run')
if held == run then return {'wait'} end
redis.call('HSET', KEYS[2], 'run', run, 'token', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {'load'}
