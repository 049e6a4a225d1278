-- views.lua: the bands of a list brought to now, whether a demand fits them, and the records that
-- a take leaves.

-- A band brought to now, from the record that it continues or nil, and whether that is its own:
-- what will be its record.
local function view_from(b, r, own)
  local used, at = 0, now
  if r and kind_of(r[1]) ~= b.kind then r, used, at = nil, carried(b, r), r.at or now end
  if b.kind == QUOTA then return quota_of(b, r, used, at) end
  if b.kind == WINDOW then return window_of(b, r, used, at) end
  if r then used = own and r[2] or carried(b, r) end
  return { b.tag, used, b.limit, b.rate }
end

-- Band i of a list brought to now.
local function view_of(state, list, i, holder)
  local b = list[i]
  if b.kind == CONCURRENCY then return held_by(b, holder) end
  local n, own = find(state.records, list, i)
  return view_from(b, n and state.records[n], own)
end

-- Whether the demand after e in demands fits, and how long it must wait. It finds out how
-- much it is granted, and the levels and views, which follow index n.
function kinds.fits(e, k, state, list, n)
  local cost, least, holder, status, longest = demands[e + 4], demands[e + 5], holders[e / 6 + 1], OK, 0
  for i = 1, list.count do
    local b, view = list[i], view_of(state, list, i, holder)
    views[n + i], levels[n + i], waits[n + i] = view, view[2], 0
    if view.unreadable then status = UNREADABLE end
    if least < cost and b.kind ~= CONCURRENCY then
      cost = math.min(cost, floor(math.max(0, b.limit - view[2]) / b.unit))
    end
  end
  cost = math.max(cost, least)
  demands[e + 4] = cost
  for i = 1, list.count do
    local b, price = list[i], cost * list[i].unit
    if b.kind == CONCURRENCY and holder.id and cost > 0 then price = 1 end
    if price > b.limit then
      status = math.max(status, TOO_COSTLY) -- or unreadable
    elseif levels[n + i] + price > b.limit and (price > 0 or b.kind ~= CONCURRENCY) then
      waits[n + i] = b.kind == BUCKET and moment_of(b.rate, b.tick, levels[n + i] + price - b.limit) - now or MAX
      longest = math.max(longest, waits[n + i])
    end
  end
  return status, longest
end

-- When nothing is left to remember of a record.
local function empty_at(r)
  local kind, empty = kind_of(r[1]), now
  if r[2] > 0 then
    if kind == BUCKET then
      empty = moment_of(r[RATE], tick_of(r[1]), r[2])
    elseif kind == QUOTA then
      empty = r[2] > r[3] and r[END] + r[LONGEST] or r[END]
    else
      local n = 0
      while n < WINDOW_SLOTS and r[COUNTS + n] == 0 do n = n + 1 end
      empty = (r[NEWEST] - n + WINDOW_SLOTS + 1) * r[LENGTH]
    end
  end
  if r.since then empty = math.min(empty, r.since + KEPT_FOR) end
  return empty
end

-- Notes that a state has changed, to be written at the end.
local function changed(k, state)
  local full = now
  for _, r in ipairs(state.records) do
    full, r.at, r.written = math.max(full, empty_at(r)), nil, nil
  end
  state[2], state.raw, full_at[k] = now, nil, full
end

-- Debits what another version of a band has taken, up to an empty bucket.
local function debit(r, units)
  r[2] = math.max(r[2], math.min(r[3], r[2] + units))
end

-- Appends the records that a list does not ask for, given the new levels of its bands, which
-- follow index first.
local function keep_others(old, list, first, records)
  local asked, split, kept, count = {}, {}, {}, 0
  for i = 1, list.count do
    if list[i].kind ~= CONCURRENCY then
      local n, own = find(old, list, i)
      if own then asked[n], split[old[n][1] % IDS] = true, old[n].since end
    end
  end
  for n, r in ipairs(old) do
    local id, kind = r[1] % IDS, kind_of(r[1])
    local version = kind * IDS + id
    if not asked[n] and count < MAX_BANDS and not kept[version] then
      r.since = r.since or split[id] or now
      for i = 1, list.count do
        local b, units = list[i], levels[first + i] - views[first + i][2]
        if b.tag % IDS == id and b.kind == kind then
          if b.kind == BUCKET then
            debit(r, muldiv(math.max(0, units), r[3], b.limit, MAX))
          elseif b.kind == WINDOW and units ~= 0 then
            local view = window_at(r, b.tag)
            view[2], view[COUNTS], r = view[2] + units, view[COUNTS] + units, view
          end
        end
      end
      if empty_at(r) > now then
        records[#records + 1], kept[version], count = r, true, count + 1
      end
    end
  end
end

-- Keeps the views of a list for a key, with new levels, to be written at the end.
function kinds.keep(k, state, list, first, held)
  local records = {}
  for i = 1, list.count do
    local view, level = views[first + i], levels[first + i]
    if list[i].kind ~= CONCURRENCY then
      local r = { unpack(view) }
      if list[i].kind == WINDOW then r[COUNTS] = r[COUNTS] + level - view[2] end
      r[2] = level
      records[#records + 1] = r
    end
  end
  keep_others(state.records, list, first, records)
  state.records, hold[k] = records, held
  changed(k, state)
end

-- Follows a clock that stepped back.
function kinds.adopt_clock(k, state)
  if #state.records > 0 then changed(k, state) end
end
