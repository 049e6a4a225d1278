-- heartbeat.lua: which gateways there are.
--
-- Writes the entry of one gateway and counts those that have not ended, by the server's
-- clock. Entries that were not renewed in time stay for a while, so that others can tell
-- which gateways were lost and when: at most MOST_ENDED. The record is bounded: a gateway that finds
-- it full is not added. If it has ten times as many entries others have written them, and
-- reading it again and again would delay all requests: the record begins anew.
--
-- KEYS[1]  the gateways, a hash: id → when the entry ends, in ms
-- ARGV     id, how long the entry lasts in ms, most entries, how long ended ones stay in ms
-- Returns  how many gateways there are

local call, match = redis.call, string.match
local LONGEST = 3600000 -- no entry lasts longer, whatever it says: a clock may step back
local MOST_READ = 10000
local MOST_ENDED = 100

local time = call('TIME')
local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local id, lasts, most, kept = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0

local count, ended = 0, 0
local entries = call('HGETALL', KEYS[1])
if #entries > 2 * MOST_READ then
  call('DEL', KEYS[1])
  entries = {}
end
for i = 1, #entries, 2 do
  local ends = match(entries[i + 1], '^%d+')
  ends = ends and ends + 0 or 0
  if entries[i] ~= id then
    if ends > now and ends <= now + LONGEST then
      count = count + 1
    elseif ends <= now and ends > now - kept and ended < MOST_ENDED then
      ended = ended + 1
    else
      call('HDEL', KEYS[1], entries[i])
    end
  end
end
if count >= most then return count end
call('HSET', KEYS[1], id, string.format('%.0f', now + lasts))
return count + 1
