-- Leaves nothing behind. A server without room, with a broken disk, or that follows another one refuses it.
-- KEYS: 1 a key that nothing else uses
-- Returns: 1
redis.call('HSET', KEYS[1], 'tried', '1')
return redis.call('DEL', KEYS[1])
