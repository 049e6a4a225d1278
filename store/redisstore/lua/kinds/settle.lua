-- settle.lua: settlements of takes from states with records.

-- What comes back to a quota or a window, of units that were taken at a moment and are due at
-- another, the end of its period for a quota.
local function give_back(b, view, units, taken_at, due)
  if b.kind == QUOTA then
    units = view[END] == due and math.max(0, math.min(units, view[2])) or 0
  else
    local n = view[NEWEST] - floor(taken_at / view[LENGTH])
    if n > WINDOW_SLOTS then return 0 end
    units = math.min(units, view[COUNTS + n])
    view[COUNTS + n] = view[COUNTS + n] - units
  end
  view[2] = view[2] - units
  return units
end

-- Gives units back to the record of a token bucket, and returns how many.
local function back_of(r, most, units, due, last)
  units = given_back(r[RATE], tick_of(r[1]), r[2], most, units, due, last)
  r[2] = r[2] - units
  return units
end

-- The record that the take of a band counts in, and whether it is of its kind and numbers. If
-- the window of its period is gone, the take counts in that of another one.
local function find_settled(records, b)
  local n, own = find_id(records, b)
  return n, own or n ~= nil and b.kind == WINDOW and kind_of(records[n][1]) == WINDOW
end

-- Changes record n, of a band that regains by steps, and the windows of the band with other
-- periods. It returns the most units that one moved by, and whether one has changed.
local function change_steps(records, b, n, change)
  local id, units = b.tag % IDS, 0
  for m, r in ipairs(records) do
    if m == n or b.kind == WINDOW and kind_of(r[1]) == WINDOW and r[1] % IDS == id then
      local view = b.kind == WINDOW and window_at(r, b.tag) or view_from(b, r, true)
      local moved = change(view)
      if moved > 0 then
        view.since, records[m] = r.since, view
      end
      units = math.max(units, moved)
    end
  end
  return units, units > 0
end

-- Gives back tokens of a cost to a band. It returns the units, and whether a record has
-- changed.
local function refund(records, b, cost, tokens, taken_at, due, last)
  local n, own = find_settled(records, b)
  if not own then return 0, false end
  -- A window of another period may have begun after the take had left its own.
  if b.kind == WINDOW and floor(now / b.slot) - floor(taken_at / b.slot) > WINDOW_SLOTS then return 0, false end
  local mine, moved = records[n], false
  if b.kind ~= BUCKET then
    return change_steps(records, b, n, function(view) return give_back(b, view, tokens * b.unit, taken_at, due) end)
  end
  local most, units = math.min(MAX, cost * b.unit), math.min(MAX, tokens * b.unit)
  for m, r in ipairs(records) do
    local split = math.max(mine.since or 0, r.since or 0)
    if m ~= n and r[1] % IDS == mine[1] % IDS and kind_of(r[1]) == BUCKET and taken_at < split then
      -- Another version of the band began with what was left of the take, by the rate of
      -- either: see carried.
      local most_there = muldiv(most, r[3], b.limit, MAX, true)
      local left = math.max(0, most - regained(b.rate, b.tick, due, split))
      left = muldiv(left, r[3], b.limit, MAX, true) + regained(r[RATE], tick_of(r[1]), due, split)
      local there = muldiv(units, r[3], b.limit, MAX, true)
      moved = back_of(r, math.min(left, most_there), there, due, last) > 0 or moved
    end
  end
  units = back_of(mine, most, units, due, last)
  return units, moved or units > 0
end

-- Debits tokens from a band as far as the largest debt allows. It returns the units, and
-- whether a record has changed. Other versions of the band are emptied at most.
local function charge(records, b, tokens)
  local n, own = find_id(records, b)
  local before, units = #records, math.min(MAX, tokens * b.unit)
  local compares = n and kind_of(records[n][1]) == b.kind
  if not n or b.kind == WINDOW and not own and compares then -- a full bucket, or what the window of another period has
    if before == MAX_RECORDS then return 0, false end
    records[before + 1] = view_from(b, n and records[n], false)
    n, own = before + 1, true
  elseif not own and (b.kind ~= BUCKET or not compares) then
    return 0, false -- what the rule counts now does not compare
  end
  local id, debited, moved = b.tag % IDS, 0, false
  if own and b.kind ~= BUCKET then
    local debited, moved = change_steps(records, b, n, function(view)
      -- The debt may be that of a higher limit, if there may be debt.
      local most = b.max > b.limit and math.max(b.max, 2 * view[3]) or b.max
      local debited = math.min(math.max(0, most - view[2]), units)
      view[2] = view[2] + debited
      if b.kind == WINDOW then view[COUNTS] = view[COUNTS] + debited end
      return debited
    end)
    if not moved then records[before + 1] = nil end
    return debited, moved
  elseif own then
    debited = math.min(math.max(0, b.max - records[n][2]), units)
    records[n][2] = records[n][2] + debited
  end
  for m, r in ipairs(records) do
    if not (own and m == n) and r[1] % IDS == id and kind_of(r[1]) == BUCKET then
      local before = r[2]
      debit(r, muldiv(units, r[3], b.limit, MAX))
      moved = moved or r[2] > before
      if not own then debited = math.max(debited, muldiv(r[2] - before, b.limit, r[3], MAX, true)) end
    end
  end
  return debited, moved or debited > 0
end

-- Corrects a take to its actual cost, or renews its slots if that is -1. It returns the tokens
-- that came back, or negative were charged, or 1 if all slots were renewed.
function kinds.settle(k, state, list, cost, actual, taken_at, due, holder)
  local difference, renew, moved, has_slot, last = cost - actual, actual == -1, false, false, now + hold[k]
  local tokens = renew and 1 or difference
  for i = 1, list.count do
    local b, units, has = list[i], 0, false
    if b.kind == CONCURRENCY then
      has_slot = release(b, holder, renew)
      if renew and not has_slot then tokens = 0 end
    elseif not renew and b.unit > 0 then
      if difference > 0 and now >= taken_at then -- else how much has overflowed since is unknown
        units, has = refund(state.records, b, cost, difference, taken_at, due[i], last)
        tokens = math.min(tokens, floor(units / b.unit))
      elseif difference > 0 then
        tokens = 0
      else
        if difference < 0 then units, has = charge(state.records, b, -difference) end
        tokens = math.max(tokens, -floor(units / b.unit))
      end
      moved = moved or has
    end
  end
  -- A slot that is renewed or released adopts a clock that stepped back, for all bands.
  if moved or (renew or has_slot) and now < state[2] then changed(k, state) end
  return tokens
end
