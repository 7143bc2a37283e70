-- Runs the script for each call of a batch. A refused call does not affect the others.
-- KEYS: of each call its keys
-- ARGV: 1 keys of a call; of each call the number of its parameters, then these
-- Returns: of each call its reply, which may be an error
local keys_of_a_call = tonumber(ARGV[1])
local replies = {}

local function run_one(key, first, last)
  return run({unpack(KEYS, key, key + keys_of_a_call - 1)}, {unpack(ARGV, first, last)})
end

local key = 1
local count = 2
while count <= #ARGV do
  local last = count + ARGV[count]
  local done, reply = pcall(run_one, key, count + 1, last)
  if not done then
    local fault = type(reply) == 'table' and reply.err or reply
    -- This server is a replica and wrote nothing. The error is for the whole batch, so that the client leaves this server.
    if string.find(fault, 'READONLY', 1, true) then return redis.error_reply('READONLY the server is a replica') end
    reply = redis.error_reply(fault)
  end
  -- A nil reply would shift the following replies.
  replies[#replies + 1] = reply or false
  key = key + keys_of_a_call
  count = last + 1
end
return replies
