-- Says that a process has reached the database. It expires by the server's own clock, so no process compares clocks.
-- KEYS: 1 the deployment's hash   ARGV: 1 the process, 2 its life in ms
-- Returns: 1
redis.call('HSET', KEYS[1], 'process', ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
