-- settle.lua: the settlement of a take.

local MAX = 9007199254740992 -- 2^53

-- Corrects a take to its actual cost, and returns the tokens that came back, or negative were
-- charged. Tokens that could be handed out twice do not come back. Of a list that is mixed it
-- also returns the value then.
function shared.settle(k, list, cost, actual, taken_at, due, holder)
  local state = open(k, list)
  if unreadable[k] then return 0, string.char(unreadable[k]) end
  if actual == -1 and not list.mixed then return 1 end -- there are no slots to renew
  if state.records then
    local tokens = kinds.settle(k, state, list, cost, actual, taken_at, due, holder)
    return tokens, list.mixed and kinds.pack(k, state)
  end
  local difference, changed, held = cost - actual, false, hold_of(k, state)
  local tokens = difference
  for i = 1, list.count do
    local b, units, level = list[i], 0, level_of(state, list[i], i)
    if difference > 0 and now >= taken_at then -- else how much has overflowed since is unknown
      local most = math.min(MAX, cost * b.unit)
      units = given_back(b.rate, b.tick, level, most, difference * b.unit, due[i], now + held)
    elseif difference < 0 then
      units = -math.min(math.max(0, b.max - level), -difference * b.unit)
    end
    if b.unit == 0 then -- it stays as it is
      units = 0
    elseif difference > 0 then
      tokens = math.min(tokens, math.floor(units / b.unit))
    else
      tokens = math.max(tokens, math.ceil(units / b.unit))
    end
    levels[i] = level - units
    changed = changed or units ~= 0
  end
  if changed then keep(k, state, list, 0, held) end
  return tokens
end
