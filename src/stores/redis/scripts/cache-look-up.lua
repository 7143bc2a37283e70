-- Looks an entry up; on a miss hands out the one fill token, unless a write mark stands or another reader has it.
-- Entries, tokens and marks count only under the source that they were written under: the Redis master and the database
-- server. The master by its replication id, which it gets anew whenever it starts or is promoted: so what a restart from
-- disk or a failover of Redis brings back is a miss. An epoch is named as well, a new one with each change of masters: a server that
-- was left and never demoted has the same replication id when an address leads to it again. The database server by what
-- the caller last saw: another one may lack rows that were cached.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 new token, 2 life of a token in ms, 3 epoch and database server, 4 masters of the epoch
-- Returns: {'hit', transaction} | {'load'} (the token is ours) | {'wait'} (another loads) | {'pass'} (a mark stands)
local source = source_of(ARGV[3], ARGV[4])
local entry = redis.call('HMGET', KEYS[1], 'source', 'transaction')
if entry[1] == source then return {'hit', entry[2]} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'pass'} end
local held = redis.call('HGET', KEYS[2], 'source')
if held == source then return {'wait'} end
redis.call('HSET', KEYS[2], 'source', source, 'token', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {'load'}
