-- period.lua: the calendar periods of quotas.

-- The period of a quota now, by the edges that the gateway sent. One whose clock is wrong
-- by more than a period sent others: periods as long as its own are assumed then.
local function period_of(b)
  local length = math.max(1, b.second - b.first)
  local last
  if now < b.first then
    last = b.first - (b.first - now - 1) + (b.first - now - 1) % length
  elseif now < b.second then
    return b.first, b.second
  elseif now < b.third then
    return b.second, b.third
  else
    last = b.third + (now - b.third) - (now - b.third) % length + length
  end
  return last - length, last
end
