-- gateways.lua: the ids of the gateways, for their reports.
--
-- KEYS[1]  the gateways, a hash: id → when the entry ends, in ms
-- ARGV     length of an id, most ids, 1 for gateways that were lost or 0 for the others
-- Returns  each id, and how many ms ago its entry has ended; entries that cannot be ids are
--          left out

local time = redis.call('TIME')
local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000

local found = {}
local entries = redis.call('HGETALL', KEYS[1])
for i = 1, #entries, 2 do
  local ends = string.match(entries[i + 1], '^%d+')
  if #entries[i] == ARGV[1] + 0 and ends and #found < 2 * ARGV[2] and (ends + 0 <= now) == (ARGV[3] == '1') then
    found[#found + 1] = entries[i]
    found[#found + 1] = string.format('%.0f', math.max(0, now - ends))
  end
end
return found
