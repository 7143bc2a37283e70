-- The end of every run: one line of JSON for bench/wrk.ts, because wrk's own table rounds what it prints. Times are microseconds, as wrk
-- counts them.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function done(summary, latency, requests)
  local used = 0
  for _, thread in ipairs(threads) do
    used = used + (thread:get('used') or 0)
  end
  local errors = summary.errors
  io.write(string.format(
    'BENCH {"requests":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"used":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), used,
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
