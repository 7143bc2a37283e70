-- Ends a run before its time is over, by count. Stopping the thread alone would leave wrk's main thread asleep until the
-- end of the run, and its measured duration with it; the signal is the one of Ctrl-C, on which wrk reports as always.

local ffi = require('ffi')
ffi.cdef('int getpid(void); int kill(int pid, int signal);')
local SIGINT = 2

local function finish()
  wrk.thread:stop()
  ffi.C.kill(ffi.C.getpid(), SIGINT)
end

return finish
