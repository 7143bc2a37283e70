-- Rules 2 to 4 of spec 4.1 in one step: locked by another, else final, else take the lock, else absent.
-- KEYS: 1 record, 2 lock
-- ARGV: 1 owner ('' only looks), 2 lease in ms, 3 fingerprint, 4 the first value of a record,
--       5 the client that asks ('' sees every key), 6 'watch', or '' or nothing: the end of a lock that is found is to be announced;
--       for a key whose reference is named also: 7 life in ms of the record to make, 8 its client, 9 reference, 10 attempt
-- Returns: {'locked', fingerprint, held ms, remaining ms} | {'final', value, fingerprint, reason, expires at, client, the asker's own lock or nothing}
--          | {'taken', ms within which to claim, client, and of a computed key: reference, attempt} | {'generated', '', client, and of a computed key: reference, attempt} | {'absent'}
local lock = redis.call('HMGET', KEYS[2], 'owner', 'fingerprint', 'taken_at', 'client')
local record = redis.call('HMGET', KEYS[1], 'value', 'fingerprint', 'reason', 'expires_at', 'client', 'reference', 'attempt')
-- Another client's key is judged before the lock: not even a 409 may tell that it exists.
local client = record[5] or lock[4] or ''
if ARGV[5] ~= '' and client ~= '' and client ~= ARGV[5] then return {'absent'} end

-- The reference of a client has another key: this one is from without credentials, and paid by it the order would be paid twice.
if ARGV[5] ~= '' and client == '' and record[6] and record[1] == ARGV[4] then return {'absent'} end

if lock[1] and lock[1] ~= ARGV[1] then
  -- A server that has no room for that still returns what it found.
  if ARGV[6] == 'watch' then redis.pcall('HSET', KEYS[2], 'watched', 1) end
  return {'locked', lock[2], now() - lock[3], redis.call('PTTL', KEYS[2])}
end

if not record[1] then
  if not ARGV[7] then return {'absent'} end
  client = ARGV[8]
  record = {ARGV[4], false, false, false, client, ARGV[9], ARGV[10]}
  redis.call('HSET', KEYS[1], 'value', ARGV[4], 'client', client, 'reference', ARGV[9], 'attempt', ARGV[10])
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
end
if record[1] ~= ARGV[4] then
  return {'final', record[1], record[2], record[3] or '', record[4], client, lock[1] or nil}
end
if ARGV[1] == '' then return {'generated', '', client, record[6] or nil, record[7] or nil} end

redis.call('HSET', KEYS[2], 'owner', ARGV[1], 'fingerprint', ARGV[3], 'taken_at', now(), 'client', client)
redis.call('PEXPIRE', KEYS[2], ARGV[2])
-- The record must not vanish while its payment is about to be claimed.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {'taken', tonumber(ARGV[2]), client, record[6] or nil, record[7] or nil}
