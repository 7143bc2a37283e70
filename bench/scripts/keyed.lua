-- Requests that differ in one token: an idempotency key or a transaction id.
-- Arguments: method, path, body ('' for none), token file, 'once' or 'cycle'. `{token}` in the path or in a header given
-- to wrk stands for the token. The file has one token a line, all of one length, so that a token is found by counting
-- and the generator spends next to nothing on it. 'once' uses no token twice and ends the run with the last one.

local folder = debug.getinfo(1, 'S').source:match('^@(.*/)')
dofile(folder .. 'report.lua')
local finish = dofile(folder .. 'finish.lua')

local before, after, tokens, step, once
local position = 1
-- Global, for report.lua: tokens handed out. wrk asks for one request before it starts, so one is never sent.
used = 0

function init(args)
  local method, path, body, file, mode = args[1], args[2], args[3], args[4], args[5]
  local template = wrk.format(method, path, nil, body ~= '' and body or nil)
  local from, to = template:find('{token}', 1, true)
  before, after = template:sub(1, from - 1), template:sub(to + 1)
  tokens = assert(io.open(file)):read('*a')
  step = tokens:find('\n', 1, true)
  once = mode == 'once'
end

function request()
  if position > #tokens then
    if once then
      finish()
      -- wrk sends whatever is returned, but nobody waits for the answer any more.
      return 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
    end
    position = 1
  end
  local token = tokens:sub(position, position + step - 2)
  position = position + step
  used = used + 1
  return before .. token .. after
end
