-- request.lua: the decision of a request, whatever it asks for.

local PEEK, DEBIT = 1, 6
local SHADOW, OVERDRAFT, SHADOW_OVERDRAFT, ALTERNATIVE = 1, 2, 3, 4
local statuses = {} -- of the demands of the request at hand

-- The longest wait until a band has more than 0 left, given the levels after first:
-- what an overdraft needs.
local function wait_until_positive(list, first)
  local longest = 0
  for i = 1, list.count do
    local b, level = list[i], levels[first + i]
    if level >= b.limit and b.kind ~= CONCURRENCY then
      local wait = moment_of(b.rate, b.tick, level - b.limit + 1) - now
      if wait > longest then longest = wait end
    end
  end
  return longest
end

-- The largest whole number of tokens up to cost that all bands have now, but at least
-- least.
local function grant_of(state, list, least, cost)
  for i = 1, list.count do
    local left = (list[i].limit - level_of(state, list[i], i)) / list[i].unit
    left = left - left % 1
    if left < cost then cost = left end
  end
  if cost < least then return least end
  return cost
end

-- Decides the request whose demands are after d in demands. It appends its answer to the values,
-- whose number is said, and returns their new number.
function shared.decide(op, asked, d, said)
  -- Does each demand fit, waiting included?
  local admitted, alternatives, over, n, e = op == DEBIT and 0 or 1, 0, 0, 0, d
  for j = 1, asked do
    local k, list, kind, cost = demands[e + 1], lists[demands[e + 2]], demands[e + 3], demands[e + 4]
    local state, status, longest, first = open(k, list), OK, 0, n
    if state.records then
      status, longest = kinds.fits(e, k, state, list, n)
      n = n + list.count
    else
      if demands[e + 5] < cost then
        cost = grant_of(state, list, demands[e + 5], cost)
        demands[e + 4] = cost
      end
      for i = 1, list.count do
        local b = list[i]
        local level, price = state[4 * i] - regained(b.rate, b.tick, state[2], now), cost * b.unit
        if level < 0 then level = 0 end
        n = n + 1
        levels[n], waits[n] = level, 0
        if price > b.limit then
          status = TOO_COSTLY
        elseif level + price > b.limit then
          local wait = moment_of(b.rate, b.tick, level + price - b.limit) - now
          waits[n] = wait
          if wait > longest then longest = wait end
        end
      end
    end
    if status ~= UNREADABLE and (kind == OVERDRAFT or kind == SHADOW_OVERDRAFT) then
      status, longest = OK, wait_until_positive(list, first)
    elseif kind == ALTERNATIVE then
      alternatives = alternatives + 1
    end
    if status == OK and longest > demands[e + 6] then status = REJECTED end
    if unreadable[k] then
      status, levels[first + 1] = UNREADABLE, unreadable[k]
    elseif status == UNREADABLE then -- it is ignored
    elseif status ~= OK and kind == ALTERNATIVE then
      over = over + 1
    elseif status ~= OK and kind ~= SHADOW and kind ~= SHADOW_OVERDRAFT then
      admitted = 0
    end
    statuses[j] = status
    e = e + 6
  end

  if alternatives > 0 and over == alternatives then admitted = 0 end

  -- Write the answer, and take from all or from none, but debit overdrafts in any case, and
  -- lists that count refused hits where they are over.
  said = said + 1
  values[said] = admitted
  n, e = 0, d
  for j = 1, asked do
    local k, list, cost = demands[e + 1], lists[demands[e + 2]], demands[e + 4]
    local state, status, bands, changed = states[k], statuses[j], list.count, false
    said = said + 1
    values[said] = status
    if list.mixed then
      local value = status == UNREADABLE and string.char(unreadable[k] or 0) or kinds.pack(k, state)
      values[said + 1], values[said + 2] = #value, value
      said = said + 2
      for i = 1, bands do
        if list[i].kind == CONCURRENCY then
          values[said + 1], values[said + 2], values[said + 3] = views[n + i][2], views[n + i][4], views[n + i][5]
          said = said + 3
        end
      end
    else
      for i = 1, bands do
        said = said + 1
        values[said] = levels[n + i]
      end
    end
    if op ~= PEEK then
      local kind = demands[e + 3]
      if kind == OVERDRAFT or kind == SHADOW_OVERDRAFT
        or list.counts and (status == REJECTED or status == TOO_COSTLY) then
        for i = 1, bands do
          local b, level = list[i], levels[n + i]
          local units = math.min(cost * b.unit, b.max - level)
          if units > 0 and status ~= UNREADABLE and b.kind ~= CONCURRENCY then
            levels[n + i], changed = level + units, true
          end
        end
        if changed then keep(k, state, list, n, hold_of(k, state)) end
      elseif admitted == 1 and status == OK and cost > 0 then
        local held = hold_of(k, state)
        for i = 1, bands do
          local b, level, wait = list[i], levels[n + i], waits[n + i]
          if wait > 0 then
            -- To the due tick, where the bucket is at most full, and back.
            local least = regained(b.rate, b.tick, now, now + wait)
            if least > level then level = least end
            if wait > held then held = wait end
          end
          levels[n + i] = level + cost * b.unit
        end
        if list.mixed then kinds.hold_slots(e, list, n) end
        keep(k, state, list, n, held)
        changed = true
      end
      if not changed and now < state[2] then
        -- The clock stepped back: no time has passed, and from here on it counts by
        -- the new clock. That changes no token, whatever the answer.
        if state.records then
          kinds.adopt_clock(k, state, list, n)
        else
          state[2], full_at[k] = now, full_with(list, levels, n)
        end
      end
    end
    n, e = n + bands, e + 6
  end
  return said
end
