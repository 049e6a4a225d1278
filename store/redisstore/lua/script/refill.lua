-- refill.lua: the arithmetic of token buckets. A band regains rate units with every tick.

-- The units that come back between two moments, whose ticks are counted from 1970. A clock that
-- stepped back counts as no time. The product may pass 2^53 and be rounded: it is subtracted
-- from a number that is below, so that the sign is right.
local function regained(rate, tick, from, to)
  local ticks = to - from
  if tick > 1 then ticks = to / tick - to / tick % 1 - (from / tick - from / tick % 1) end
  if ticks < 0 then return 0 end
  return ticks * rate
end

-- The moment at which units will have come back, at a tick's edge.
local function moment_of(rate, tick, units)
  local ticks = units / rate
  local whole = ticks - ticks % 1
  if whole < ticks then whole = whole + 1 end
  if tick == 1 then return now + whole end
  return (now / tick - now / tick % 1 + whole) * tick
end

-- The units of a take to give back: at most units, at most those used, and at most its cost less
-- what comes back between the moment when it was due and the last moment when any take is due.
local function given_back(rate, tick, used, cost, units, due, last)
  local left = cost - regained(rate, tick, due, last)
  if units > left then units = left end
  if units > used then units = used end
  if units < 0 then return 0 end
  return units
end
