-- Untimed preparation: sends one request again and again, and writes what a pattern finds in each answer to a file.
-- Arguments: method, path, body ('' for none), pattern, file, how many.

local folder = debug.getinfo(1, 'S').source:match('^@(.*/)')
dofile(folder .. 'report.lua')
local finish = dofile(folder .. 'finish.lua')

local text, pattern, file, wanted
used = 0

function init(args)
  text = wrk.format(args[1], args[2], nil, args[3] ~= '' and args[3] or nil)
  pattern = args[4]
  file = assert(io.open(args[5], 'w'))
  wanted = tonumber(args[6])
end

function request()
  return text
end

function response(status, headers, body)
  local token = body:match(pattern)
  if not token or used >= wanted then return end
  file:write(token, '\n')
  used = used + 1
  if used == wanted then
    file:close()
    finish()
  end
end
