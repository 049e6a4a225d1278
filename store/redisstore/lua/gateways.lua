-- gateways.lua: the ids of the gateways, for their reports.
--
-- KEYS[1]  the gateways, a hash by id
-- ARGV     length of an id, most ids
-- Returns  the ids; entries that cannot be ids are left out

local ids = {}
local entries = redis.call('HGETALL', KEYS[1])
for i = 1, #entries, 2 do
  if #entries[i] == ARGV[1] + 0 and #ids < ARGV[2] + 0 then ids[#ids + 1] = entries[i] end
end
return ids
