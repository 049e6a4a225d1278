-- reports.lua: what gateways say about themselves.
--
-- KEYS     their reports
-- ARGV     most bytes of a report
-- Returns  the reports in the order of the keys; false if there is none, or it is larger

local reports = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if reports[i] and #reports[i] > ARGV[1] + 0 then reports[i] = false end
end
return reports
