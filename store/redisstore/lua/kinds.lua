-- kinds.lua: what decide.lua needs for bands that are no token buckets, and for values that
-- were written under other bands: the body of its function define_kinds.
--
-- The state of a key then has records, brought to now. A record is a list of tag, used, limit,
-- and the rest by its kind. since is set in those that are kept: a take did not ask for them.
-- internal/bucket has the same in Go, where State.Store says why records are kept.

local VERSION, OK, TOO_COSTLY, MAX_BANDS, MAX_RECORDS = 3, 0, 2, 16, 32
local BUCKET, QUOTA, WINDOW, CONCURRENCY = 0, 1, 2, 3
local WINDOW_SLOTS = 16
local HOLD, KEPT = 15 * 16777216, 128 * 16777216
local KEPT_FOR = 3600000000 -- for how long a record is kept that no take asks for
local MAX = 9007199254740992 -- 2^53
-- Where a record has the rate of a token bucket; the end of the period of a quota, and how
-- long one lasts at most; the number of the newest slot, the length and the counts of a window.
-- When the first holder loses its slot, in the view of a concurrency band.
local RATE, END, LONGEST, NEWEST, LENGTH, COUNTS, FIRST = 4, 4, 5, 4, 5, 6, 4
local call, pack, unpack_from, rep, byte, format, sub, floor, fmod = redis.call, struct.pack, struct.unpack, string.rep, string.byte, string.format, string.sub, math.floor, math.fmod

local kinds = { take = {} }

local function kind_of(tag) return floor(tag / 16777216) % 16 end
local function tick_of(tag) return 1000 ^ (floor(tag / 268435456) % 8) end

-- x * y / z for integers below 2^53, rounded up or down, or most if it is more. The product
-- may need 106 bits: it is built by doubling, with quotient and remainder.
local function muldiv(x, y, z, most, down)
  local q, r
  if x * y < MAX then
    r = fmod(x * y, z)
    q = (x * y - r) / z
  else
    local yr = fmod(y, z)
    local yq = (y - yr) / z
    local bit = 4503599627370496 -- 2^52
    q, r = 0, 0
    while bit >= 1 do
      q = q + q
      if r >= z - r then
        q, r = q + 1, r - (z - r)
      else
        r = r + r
      end
      if x >= bit then
        x = x - bit
        q = q + yq
        if r >= z - yr then
          q, r = q + 1, r - (z - yr)
        else
          r = r + yr
        end
      end
      if q > most then return most end
      bit = bit / 2
    end
  end
  if r > 0 and not down then q = q + 1 end
  if q > most then return most end
  return q
end

-- The formats of records after the tag, by kind.
local formats = { [BUCKET] = '<I7I7I7', [QUOTA] = '<I7I7I7I7', [WINDOW] = '<I7I7I7I7' .. rep('I7', WINDOW_SLOTS + 1) }

-- Brings a record that was written at a moment to now. A clock that stepped back counts as
-- no time.
local function bring(r, at)
  local kind = kind_of(r[1])
  r.at, r.written = at, r[2]
  if kind == BUCKET and now > at then
    local tick = tick_of(r[1])
    r[2] = math.max(0, r[2] - (floor(now / tick) - floor(at / tick)) * r[RATE])
  elseif kind == WINDOW and now < at then
    r[NEWEST] = math.min(r[NEWEST], floor(now / r[LENGTH]) + 1)
  end
  if r.since and now < at then r.since = r.since - (at - now) end
end

-- Brings a state to now. One whose clock stepped back is adopted when it is written.
local function bring_all(k, state)
  local at = state[2]
  for _, r in ipairs(state.records) do bring(r, at) end
  if now > at then
    hold[k], state[2] = math.max(0, hold[k] - (now - at)), now
  end
end

-- Reads a value, or returns nil if that is not possible.
function kinds.read(k, value)
  if byte(value) ~= VERSION or #value < 8 then return nil end
  local _, at = unpack_from('<BI7', value)
  local records, p, held = {}, 9, 0
  while p <= #value do
    if p + 10 > #value or #records == MAX_RECORDS or held > 0 then return nil end
    local tag = unpack_from('<I4', value, p)
    local f = formats[kind_of(tag)]
    if tag == HOLD then
      held = unpack_from('<I7', value, p + 4)
      p = p + 11
    elseif not f or p + 3 + struct.size(f) + (tag >= KEPT and 7 or 0) > #value then
      return nil
    else
      local r = { tag, unpack_from(f, value, p + 4) }
      p, r[#r] = r[#r], nil
      if tag >= KEPT then
        r[1] = tag - KEPT
        r.since, p = unpack_from('<I7', value, p)
      end
      if kind_of(tag) == WINDOW and r[LENGTH] == 0 or kind_of(tag) == BUCKET and (r[RATE] == 0 or tick_of(tag) > 1000000) then return nil end
      records[#records + 1] = r
    end
  end
  if #records == 0 then return nil end
  hold[k] = held
  local state = { VERSION, at, records = records, raw = value }
  bring_all(k, state)
  return state
end

-- Makes the state of a key one with records.
function kinds.with_records(k, state)
  if state.records then return end
  state.records, state.raw = {}, stored[k] and not full_at[k] and stored[k]
  if stored[k] or full_at[k] then
    for p = 3, #state, 4 do state.records[#state.records + 1] = { state[p], state[p + 1], state[p + 2], state[p + 3] } end
  end
  bring_all(k, state)
end

-- Whether a record is measured as a band is: a token bucket with the same numbers, a window
-- with the same period, other kinds with any.
local function is_of(r, b)
  if b.kind ~= BUCKET then return kind_of(r[1]) == b.kind and (b.kind ~= WINDOW or r[LENGTH] == b.slot) end
  return floor(r[1] / 16777216) == floor(b.tag / 16777216) and r[3] == b.limit and r[RATE] == b.rate
end

-- The number of the record with the id of a band, or nil, and whether it is the band's: else
-- what is used carries over. A settlement looks no further: the record at the position may
-- have begun after the take, with another label.
local function find_id(records, b)
  local id, found = b.tag % 16777216, nil
  for n, r in ipairs(records) do
    if r[1] % 16777216 == id then
      if is_of(r, b) then return n, true end
      found = found or n
    end
  end
  return found, false
end

-- The record that band i continues: that of its id. A band that has none takes over the record
-- at its position if that is no other band's: its label has changed.
local function find(records, list, i)
  local b = list[i]
  local found, own = find_id(records, b)
  local place = b.place or i
  local r = records[place]
  if found or not r or r.since then return found, own end
  for j = 1, list.count do
    if list[j].tag % 16777216 == r[1] % 16777216 and list[j].kind ~= CONCURRENCY then return nil, false end
  end
  return place, is_of(r, b)
end

-- What a record has used, of what counts now.
local function used_now(r)
  local kind = kind_of(r[1])
  if kind == QUOTA and r[END] <= now then return 0 end
  if kind ~= WINDOW then return r[2] end
  local used = 0
  for n = 0, WINDOW_SLOTS do
    if (r[NEWEST] - n + WINDOW_SLOTS + 1) * r[LENGTH] > now then used = used + r[COUNTS + n] end
  end
  return used
end

-- What a band has used that continues a record with other numbers or of another kind. A token
-- bucket has the same part used, and regains as if the rule had changed when the record was
-- written, or not yet, whichever is more: when it did is not known.
local function carried(b, r)
  local used, written = used_now(r), r.written or r[2]
  if b.kind ~= BUCKET and kind_of(r[1]) ~= BUCKET then return used end
  if r[3] <= 0 then return b.limit end
  used = muldiv(used, b.limit, r[3], b.max)
  if b.kind ~= BUCKET then return used end
  written = muldiv(written, b.limit, r[3], b.max) - math.max(0, b.edge - floor((r.at or now) / b.tick)) * b.rate
  return math.max(0, math.min(used, written))
end

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

-- Brings a quota to now. A change of the limit does not change what is used; only what was
-- used beyond every limit of a period is paid by the next, unless it counts refused hits.
local function quota_of(b, r, used, at)
  local begin, last = period_of(b)
  if at < begin then used = 0 end -- of an earlier period
  local view = { b.tag, used, b.limit, last, b.longest }
  if r and r[END] > now then
    view[2], view[3], view[END], view[LONGEST] = r[2], math.max(b.limit, r[3]), r[END], math.max(b.longest, r[LONGEST])
  elseif r and r[END] >= begin and not b.counts then
    view[2] = math.min(math.max(0, r[2] - r[3]), b.limit) -- of which no part is for the one after it
  end
  return view
end

-- Brings the counts of a window to now.
local function window_of(b, r, used, at)
  local view = { b.tag, 0, b.limit, floor(now / b.slot), b.slot }
  for n = 0, WINDOW_SLOTS do view[COUNTS + n] = 0 end
  if not r then
    local n = math.max(0, view[NEWEST] - floor(at / b.slot))
    if n <= WINDOW_SLOTS then view[2], view[COUNTS + n] = used, used end
    return view
  end
  local newest, length = r[NEWEST], r[LENGTH]
  if floor(newest * length / b.slot) > view[NEWEST] then view[NEWEST] = view[NEWEST] + 1 end -- the clock stepped back
  if length == b.slot then newest = math.min(newest, view[NEWEST]) end
  for n = 0, WINDOW_SLOTS do
    local units, number = r[COUNTS + n], newest - n
    if length ~= b.slot then number = math.min(floor(((number + 1) * length - 1) / b.slot), view[NEWEST]) end
    local at = view[NEWEST] - number
    if units > 0 and at <= WINDOW_SLOTS then
      view[COUNTS + at] = view[COUNTS + at] + units
      view[2] = view[2] + units
    end
  end
  return view
end

-- Follows a clock that stepped back behind the last change of a set of holders: each of them
-- has as much time left as before.
local function shift_holders(holder)
  local at = -tonumber(call('ZSCORE', KEYS[holder.k], 'at') or 0)
  if at <= now then return end
  local ends = call('ZRANGEBYSCORE', KEYS[holder.k], '(0', '+inf', 'WITHSCORES')
  for n = 1, #ends, 2 do call('ZADD', KEYS[holder.k], format('%.0f', ends[n + 1] - (at - now)), ends[n]) end
  call('ZADD', KEYS[holder.k], format('%.0f', -now), 'at')
end

-- How many hold slots of a band, and when the first of them loses its slot, which is only
-- looked up where it is needed.
local function held_by(b, holder)
  local held, first = call('ZCOUNT', KEYS[holder.k], format('(%.0f', now), '+inf'), 0
  if held >= b.limit then first = tonumber(call('ZRANGEBYSCORE', KEYS[holder.k], format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]) end
  return { b.tag, held, b.limit, first }
end

-- Gives a slot until a moment, or renews it. The set expires some time after the last end, so
-- that its expiry need not be renewed with every slot. Holders that have lost their slots are
-- removed then.
local function hold_slot(b, holder, till)
  call('ZADD', KEYS[holder.k], format('%.0f', -now), 'at', format('%.0f', till), holder.id)
  local left = till - now
  if not time_is_passed_in and call('PTTL', KEYS[holder.k]) * 1000 < left then
    call('PEXPIRE', KEYS[holder.k], format('%d', 2 * left / 1000 + 1))
    call('ZREMRANGEBYSCORE', KEYS[holder.k], '(0', format('%.0f', now))
  end
end

-- Gives the slots of the demand after e in demands.
function kinds.hold_slots(e, list, first)
  local holder = holders[e / 6 + 1]
  for i = 1, list.count do
    if list[i].kind == CONCURRENCY and holder.id then
      shift_holders(holder)
      hold_slot(list[i], holder, now + list[i].hold)
    end
  end
end

-- The record of a window brought to now. It keeps its numbers: under those of a band with a
-- shorter period the rest would be lost.
local function window_at(r, tag)
  local view = window_of({ tag = tag, limit = r[3], slot = r[LENGTH] }, r, 0, now)
  view.since = r.since
  return view
end

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
    if least < cost and b.kind ~= CONCURRENCY then cost = math.min(cost, floor(math.max(0, b.limit - view[2]) / b.unit)) end
  end
  cost = math.max(cost, least)
  demands[e + 4] = cost
  for i = 1, list.count do
    local b, price = list[i], cost * list[i].unit
    if b.kind == CONCURRENCY and holder.id and cost > 0 then price = 1 end
    if price > b.limit then
      status = TOO_COSTLY
    elseif levels[n + i] + price > b.limit and (price > 0 or b.kind ~= CONCURRENCY) then
      waits[n + i] = b.kind == BUCKET and moment_of(b, levels[n + i] + price - b.limit) - now or MAX -- for ever
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
      local tick = tick_of(r[1])
      empty = (floor(now / tick) + math.ceil(r[2] / r[RATE])) * tick
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
      if own then asked[n], split[old[n][1] % 16777216] = true, old[n].since end
    end
  end
  for n, r in ipairs(old) do
    local id = r[1] % 16777216
    if not asked[n] and count < MAX_BANDS and not kept[id] then
      r.since = r.since or split[id] or now
      for i = 1, list.count do
        local b, units = list[i], levels[first + i] - views[first + i][2]
        if b.tag % 16777216 == id and b.kind == kind_of(r[1]) then
          if b.kind == BUCKET then
            debit(r, muldiv(math.max(0, units), r[3], b.limit, MAX))
          elseif b.kind == WINDOW and units ~= 0 then
            local view = window_at(r, b.tag)
            view[2], view[COUNTS], r = view[2] + units, view[COUNTS] + units, view
          end
        end
      end
      if empty_at(r) > now then
        records[#records + 1], kept[id], count = r, true, count + 1
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

-- The value of a state with records. Nothing is a full bucket.
function kinds.pack(k, state)
  if #state.records == 0 then return '' end
  if state.raw then return state.raw end
  local parts = { pack('<BI7', VERSION, state[2]) }
  for _, r in ipairs(state.records) do
    parts[#parts + 1] = pack('<I4' .. sub(formats[kind_of(r[1])], 2), r.since and r[1] + KEPT or r[1], unpack(r, 2))
    if r.since then parts[#parts + 1] = pack('<I7', r.since) end
  end
  if hold[k] > 0 then parts[#parts + 1] = pack('<I4I7', HOLD, hold[k]) end
  state.raw = table.concat(parts)
  return state.raw
end

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

-- What comes back to a token bucket of units that were due at a moment: at most those of
-- the cost, less what has come back until another moment.
local function back_of(r, most, units, due, last)
  local tick = tick_of(r[1])
  local gone = math.max(0, floor(last / tick) - floor(due / tick)) * r[RATE]
  units = math.max(0, math.min(units, most - gone, r[2]))
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
  local id, units = b.tag % 16777216, 0
  for m, r in ipairs(records) do
    if m == n or b.kind == WINDOW and kind_of(r[1]) == WINDOW and r[1] % 16777216 == id then
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
  local mine, moved = records[n], false
  if b.kind ~= BUCKET then
    return change_steps(records, b, n, function(view) return give_back(b, view, tokens * b.unit, taken_at, due) end)
  end
  local most, units = math.min(MAX, cost * b.unit), math.min(MAX, tokens * b.unit)
  for m, r in ipairs(records) do
    local split = math.max(mine.since or 0, r.since or 0)
    if m ~= n and r[1] % 16777216 == mine[1] % 16777216 and kind_of(r[1]) == BUCKET and taken_at < split then
      -- Another version of the band began with what was left of the take, by the rate of
      -- either: see carried.
      local tick, most_there = tick_of(r[1]), muldiv(most, r[3], b.limit, MAX, true)
      local gone = math.max(0, floor(split / b.tick) - floor(due / b.tick)) * b.rate
      local left = muldiv(math.max(0, most - gone), r[3], b.limit, MAX, true) + math.max(0, floor(split / tick) - floor(due / tick)) * r[RATE]
      moved = back_of(r, math.min(left, most_there), muldiv(units, r[3], b.limit, MAX, true), due, last) > 0 or moved
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
  local id, debited, moved = b.tag % 16777216, 0, false
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
    if not (own and m == n) and r[1] % 16777216 == id and kind_of(r[1]) == BUCKET then
      local before = r[2]
      debit(r, muldiv(units, r[3], b.limit, MAX))
      moved = moved or r[2] > before
      if not own then debited = math.max(debited, muldiv(r[2] - before, b.limit, r[3], MAX, true)) end
    end
  end
  return debited, moved or debited > 0
end

-- Releases or renews the slot of a holder, and returns whether it had one. A slot never ends
-- earlier than before: the band may have had a longer hold.
local function release(b, holder, renew)
  shift_holders(holder)
  local till = holder.id and tonumber(call('ZSCORE', KEYS[holder.k], holder.id) or 0) or 0
  if till <= now then return false end
  if renew then
    hold_slot(b, holder, math.max(till, now + b.hold))
  else
    call('ZREM', KEYS[holder.k], holder.id)
  end
  return true
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

-- Fast paths as in decide.lua, for a take from a key that no other request of the call has.
-- They return the number of values of the answer.

-- The value of one quota after a take in the period of its value, or nil if it has to be
-- decided as others, and the value before.
local function quota_after(b, value, cost)
  local used, limit, last, longest = 0, b.limit, nil, b.longest
  if not value then
    if not b.last then
      local _, last = period_of(b)
      b.last = last
    end
    value, last = '', b.last
  else
    if #value ~= 40 then return nil end
    local version, written, tag
    version, written, tag, used, limit, last, longest = unpack_from('<BI7I4I7I7I7I7', value)
    if version ~= VERSION or tag ~= b.tag or limit ~= b.limit or longest ~= b.longest or written > now or last <= now then return nil end
  end
  used = used + cost
  if used > b.limit or cost == 0 then return nil end
  if b.expires_for ~= last then
    b.expires_for, b.expires, b.lifetime = last, expiry_of(last)
  end
  return pack('<BI7I4I7I7I7I7', VERSION, now, b.tag, used, limit, last, longest), value
end

-- One quota of one key.
kinds.take[QUOTA] = function(d, said)
  local k, b = demands[d + 1], lists[demands[d + 2]][1]
  local after, value = quota_after(b, stored[k], demands[d + 4])
  if not after then return false end
  values[said + 1], values[said + 2], values[said + 3], values[said + 4] = 1, OK, #value, value
  write(k, after, b.expires, b.lifetime)
  return said + 4
end

-- One quota of each of several keys. The new values are kept by demand, and written if all
-- fit.
local after, after_expires, after_lifetime = {}, {}, {}
function kinds.take_quotas(asked, d, said)
  local n, e = said + 1, d -- the first is whether it is admitted
  for j = 1, asked do
    local b, value = lists[demands[e + 2]][1], nil
    after[j], value = quota_after(b, stored[demands[e + 1]], demands[e + 4])
    if not after[j] then return false end
    after_expires[j], after_lifetime[j] = b.expires, b.lifetime
    values[n + 1], values[n + 2], values[n + 3] = OK, #value, value
    n, e = n + 3, e + 6
  end
  values[said + 1] = 1
  for j = 1, asked do
    write(demands[d + 1], after[j], after_expires[j], after_lifetime[j])
    d = d + 6
  end
  return n
end

-- One window of one key. The counts of its slots stay packed: those that have left are
-- cut off, and the newest changes.
kinds.take[WINDOW] = function(d, said)
  local k, list, cost = demands[d + 1], lists[demands[d + 2]], demands[d + 4]
  local b, value, used, count, older = list[1], stored[k] or '', 0, 0, nil
  local current = b.current
  if not current then
    current = now / b.slot - now / b.slot % 1
    b.current, b.none = current, rep('\0', 7 * WINDOW_SLOTS)
    b.expires, b.lifetime = expiry_of((current + WINDOW_SLOTS + 1) * b.slot)
  end
  if not stored[k] then
    older = b.none
  else
    if #value ~= 159 then return false end
    local version, written, tag, limit, newest, length
    version, written, tag, used, limit, newest, length, count = unpack_from('<BI7I4I7I7I7I7I7', value)
    if version ~= VERSION or tag ~= b.tag or length ~= b.slot or written > now or newest > current then return false end
    local gone = current - newest
    if gone == 0 then
      older = sub(value, 48)
    elseif gone > WINDOW_SLOTS then
      used, count, older = 0, 0, b.none
    else
      local cut = 160 - 7 * gone
      for at = cut, 153, 7 do used = used - unpack_from('<I7', value, at) end
      count, older = 0, rep('\0', 7 * gone - 7) .. sub(value, 41, cut - 1)
    end
  end
  if used + cost > b.limit or cost == 0 then return false end
  values[said + 1], values[said + 2], values[said + 3], values[said + 4] = 1, OK, #value, value
  write(k, pack('<BI7I4I7I7I7I7I7', VERSION, now, b.tag, used + cost, b.limit, current, b.slot, count + cost) .. older, b.expires, b.lifetime)
  return said + 4
end

-- One slot of one key.
kinds.take[CONCURRENCY] = function(d, said)
  local b, cost, holder = lists[demands[d + 2]][1], demands[d + 4], holders[d / 6 + 1]
  if cost == 0 or not holder.id then return false end
  local at = call('ZSCORE', KEYS[holder.k], 'at')
  if at and -tonumber(at) > now then return false end
  local held = at and call('ZCOUNT', KEYS[holder.k], format('(%.0f', now), '+inf') or 0
  if held >= b.limit then return false end
  hold_slot(b, holder, now + b.hold)
  values[said + 1], values[said + 2], values[said + 3], values[said + 4], values[said + 5], values[said + 6] = 1, OK, 0, '', held, 0
  return said + 6
end

return kinds
