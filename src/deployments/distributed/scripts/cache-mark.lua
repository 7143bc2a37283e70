-- Before a write commits: drops the entry, voids the fill token, and puts a mark, which counts only under the master that
-- it was put under: another one may bring an old mark back, and knows nothing of the writes between.
-- KEYS: 1 entry, 2 fill token, 3 write marks
-- ARGV: 1 token of the mark, 2 life of a mark in ms
-- Returns: 1
local run = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[3], ARGV[1], run)
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return 1
