-- agree.lua: what all gateways must agree on.
--
-- Writes the missing fields of the fleet state and returns all fields, atomically: of
-- gateways that start together one writes all of them. The field since is when the
-- state was first written, in microseconds.
--
-- KEYS[1]  the fleet state, a hash
-- ARGV     field, value, field, value, ...
-- Returns  how many fields were not there, the same of all fields there are, and the time in
--          microseconds

local call = redis.call

local written = 0
for i = 1, #ARGV, 2 do
  written = written + call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1])
end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
call('HSETNX', KEYS[1], 'since', string.format('%.0f', now))
return { written, call('HGETALL', KEYS[1]), now }
