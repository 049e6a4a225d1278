-- run.lua: the requests of a call, one after the other, and then its settlements. It writes what
-- they changed, and returns the answer.

local d, takes = 0, nil
for r = 1, 2 * request_count, 2 do
  local op, asked, done = requests[r], requests[r + 1], false
  if op == TAKE_ALONE then
    if asked == 1 and lists[demands[d + 2]].count == 1 then
      done = take_one(d)
    else
      done = take_several(asked, d)
    end
  elseif op == TAKE_KIND then
    takes = takes or define_takes(shared)
    if asked == 1 then
      done = takes[lists[demands[d + 2]][1].kind](d, said)
    else
      done = takes.several_quotas(asked, d, said)
    end
    if done then said = done end
  end
  if not done then said = (shared.decide or define_decide(shared))(op, asked, d, said) end
  d = d + 6 * asked
end

if settlement_count > 0 then
  if not shared.decide then define_decide(shared) end
  for number = 1, settlement_count do
    local k, l, cost, actual, taken_at
    k, l, cost, actual, taken_at, pos = unpack_from('<I2I2ddd', input, pos)
    local list, due = lists[l], {}
    for i = 1, list.count do due[i], pos = unpack_from('<d', input, pos) end
    local tokens, value = shared.settle(k, list, cost, actual, taken_at, due, holders[demand_count + number])
    said = said + 1
    values[said] = tokens
    if list.mixed and actual ~= -1 then
      values[said + 1], values[said + 2] = #value, value
      said = said + 2
    end
  end
end

if shared.decide then shared.write_changes(expiries) end
if time_is_passed_in then
  for k = 1, #KEYS do
    said = said + 1
    values[said] = expiries[k] or -1
  end
end

return pack(ARGV[2], unpack(values))
