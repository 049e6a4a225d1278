-- warn.lua: adds a warning to the lists, unless its mark says that they have it.
--
-- KEYS[1]  the mark: when it ends, in microseconds
-- KEYS[2]  the pending warnings, a stream
-- KEYS[3]  the last warnings, a stream
-- ARGV     the warning, when its level was seen and its end in microseconds, most pending warnings,
--          most last ones, and in tests the time
-- Returns  when the mark ends, and 1 if an older warning that was pending made room for it

local call = redis.call
local STEP = 1000000 -- later reports differ by less, unless the clock has stepped

local function mark(now, ends)
  -- The mark of a quota is of its period alone. It stays for reports that are late.
  call('PSETEX', KEYS[1], string.format('%.0f', math.max(0, math.ceil((ends - now) / 1000)) + 10000), ARGV[3])
end

local seen, ends, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[6])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local known = tonumber(call('MGET', KEYS[1])[1] or nil)
-- A level that was seen before the mark ended belongs to its period, however late the report is.
if known and (known > math.min(seen, now) or known >= ends) then
  if known <= ends + STEP then return { known, 0 } end
  mark(now, ends) -- the clock has stepped back
  return { ends, 0 }
end
local full = call('XLEN', KEYS[2]) >= tonumber(ARGV[4])
call('XADD', KEYS[2], 'MAXLEN', ARGV[4], '*', 'warning', ARGV[1])
call('XADD', KEYS[3], 'MAXLEN', ARGV[5], '*', 'warning', ARGV[1])
mark(now, ends) -- last: what fails is repeated
return { ends, full and 1 or 0 }
