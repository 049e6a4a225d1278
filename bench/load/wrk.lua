-- Posts bodies for many users in turn, and says at the end what came of it on
-- one line. wrk calls setup and done once, init and request in each thread.
--
-- Arguments: a body with USER where the user's name goes, and how many users
-- there are for each thread.

local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

-- The requests are made before the clock starts, so that wrk takes as little as
-- it can of the processor that it shares with the server.
function init(args)
  local body, users = args[1], tonumber(args[2])
  local headers = { ["Content-Type"] = "application/json" }
  requests = {}
  for i = 1, users do
    local user = string.format("user-%d-%d", number, i)
    requests[i] = wrk.format("POST", nil, headers, (body:gsub("USER", user)))
  end
  turn = 0
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local e = summary.errors
  print(string.format("load %d %d %d %d %d %d", summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.timeout, e.status))
end
