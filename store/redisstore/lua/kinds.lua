-- kinds.lua: what decide.lua needs for bands that are no token buckets: the body of its
-- function define_kinds.

local VERSION, MIXED, OK, TOO_COSTLY, MAX_BANDS = 1, 2, 0, 2, 16
local BUCKET, QUOTA, WINDOW, CONCURRENCY = 0, 1, 2, 3
local WINDOW_SLOTS = 16
-- Where a record of a band has the end of the period of a quota; the number of the newest
-- slot, the length and the counts of a window; when the first holder of a slot loses it, and
-- until when the holders are kept.
local END, NEWEST, LENGTH, COUNTS, FIRST, KEPT = 5, 5, 6, 7, 5, 6
local call, pack, unpack_from, rep, byte, format, sub = redis.call, struct.pack, struct.unpack, string.rep, string.byte, string.format, string.sub

local kinds = { take = {} }

-- What a mixed value remembers of a band: kind, id, used, limit, and from 5 on the rest.
local record_formats = { [BUCKET] = '<BI3I7I7', [QUOTA] = '<BI3I7I7I7', [WINDOW] = '<BI3I7I7I7I7' .. rep('I7', WINDOW_SLOTS + 1), [CONCURRENCY] = '<BI3I7I7I7I7' }

-- The records of a value, or nil if it cannot be read.
function kinds.records_of(value)
  local records, at = {}, 16
  while at <= #value do
    local f = record_formats[byte(value, at)]
    if not f or at + struct.size(f) - 1 > #value or #records == MAX_BANDS then return nil end
    local r = { unpack_from(f, value, at) }
    at = r[#r]
    r[#r] = nil
    if r[1] == WINDOW and r[LENGTH] == 0 then return nil end
    records[#records + 1] = r
  end
  return #records > 0 and records
end

-- Makes the state of a key one with records.
function kinds.with_records(k, state)
  state.records, state.raw = {}, stored[k] and not full_at[k] and stored[k]
  for p = 3, stored[k] and #state or full_at[k] and #state or 0, 3 do
    state.records[#state.records + 1] = { BUCKET, state[p], state[p + 1], state[p + 2] }
  end
  for p = #state, 3, -1 do state[p] = nil end
end

-- The record of band i, as carried() finds a slot.
local function found(records, list, i)
  local id = list[i].id
  if records[i] and records[i][2] == id then return records[i] end
  for _, r in ipairs(records) do
    if r[2] == id then return r end
  end
  local r = records[i]
  if r then
    for j = 1, list.count do
      if list[j].id == r[2] then return nil end
    end
  end
  return r
end

-- The record of band i. Requests under way and tokens do not compare.
local function record_of(records, list, i)
  local r = found(records, list, i)
  if r and (r[1] == CONCURRENCY) ~= (list[i].kind == CONCURRENCY) then return nil end
  return r
end

-- How many hold slots of a band, and when the first of them loses its slot, which is only
-- looked up where it is needed.
local function held_by(b, holder)
  local held = call('ZCOUNT', KEYS[holder.k], format('(%.0f', now), '+inf')
  if held < b.limit then return held, 0 end
  return held, tonumber(call('ZRANGEBYSCORE', KEYS[holder.k], format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- Gives a slot, or renews it. The set of the holders is kept for twice their time, so that
-- it need not be renewed with every slot. If it is kept for longer, the clock stepped back,
-- and no holder keeps more than its time.
local function hold_slot(b, view, holder)
  local till = now + b.hold
  call('ZREMRANGEBYSCORE', KEYS[holder.k], '-inf', format('%.0f', now))
  if view[KEPT] > till + b.hold then
    for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[holder.k], format('(%.0f', till), '+inf')) do
      call('ZADD', KEYS[holder.k], format('%.0f', till), id)
    end
    view[KEPT] = 0
  end
  call('ZADD', KEYS[holder.k], format('%.0f', till), holder.id)
  if view[KEPT] < till then
    view[KEPT] = till + b.hold
    if not time_is_passed_in then call('PEXPIRE', KEYS[holder.k], format('%d', 2 * b.hold / 1000 + 1)) end
  end
end

-- Gives the slots of the demand after e in demands.
function kinds.hold_slots(e, list, first)
  local holder = holders[e / 6 + 1]
  for i = 1, list.count do
    if list[i].kind == CONCURRENCY and holder.id then
      hold_slot(list[i], views[first + i], holder)
      levels[first + i] = levels[first + i] + 1
    end
  end
end

local function in_proportion(b, used, limit)
  if limit == b.limit then return used end
  if limit <= 0 then return b.limit end
  return muldiv(used, b.limit, limit, b.max)
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

-- Brings the counts of a window to now: the record from END on, and their sum.
local function window_of(b, r)
  local current = now / b.slot - now / b.slot % 1
  local view, used, newest, length = { WINDOW, b.id, 0, b.limit, current, b.slot }, 0, r[NEWEST], r[LENGTH]
  for n = 0, WINDOW_SLOTS do view[COUNTS + n] = 0 end
  local start = newest * length / b.slot
  if start - start % 1 > current then view[NEWEST] = current + 1 end -- the clock stepped back
  if length == b.slot and newest > current + 1 then newest = current + 1 end
  for n = 0, WINDOW_SLOTS do
    local units, number = r[COUNTS + n], newest - n
    if length ~= b.slot then
      number = ((number + 1) * length - 1) / b.slot
      number = math.min(number - number % 1, view[NEWEST])
    end
    local at = view[NEWEST] - number
    if units > 0 and at <= WINDOW_SLOTS then
      units = math.min(in_proportion(b, units, r[4]), b.max - used)
      view[COUNTS + at] = view[COUNTS + at] + units
      used = used + units
    end
  end
  view[3] = used
  return view
end

-- The record of band i brought to now, and whether it was written under other numbers.
function kinds.view_of(state, list, i, holder)
  local b, r = list[i], record_of(state.records, list, i)
  local kind, used, changed = b.kind, 0, false
  if kind == CONCURRENCY then
    local held, first = held_by(b, holder)
    if r then r[3], r[FIRST], state.raw = held, first, nil end
    return { kind, b.id, held, b.limit, first, r and r[KEPT] or 0 }, false
  end
  if r then
    used = in_proportion(b, r[3], r[4])
    changed = r[1] ~= kind or r[4] ~= b.limit or kind == WINDOW and r[LENGTH] ~= b.slot
  end
  if kind == BUCKET then
    if used > b.max then used = b.max end -- a change of the rate alone changes it
    local written = state[2]
    if now > written then
      used = used - (b.edge - (written / b.tick - written / b.tick % 1)) * b.rate
      if used < 0 then used = 0 end
    end
    return { kind, b.id, used, b.limit }, changed
  end
  if kind == QUOTA then
    local begin, last = period_of(b)
    if r and r[1] == QUOTA then
      if r[END] > now then
        last = r[END]
      elseif r[END] >= begin then
        used = math.max(0, used - b.limit) -- debt is paid by the new period
      else
        used = 0
      end
    end
    return { kind, b.id, used, b.limit, last }, changed
  end
  if r and r[1] == WINDOW then return window_of(b, r), changed end
  local view = { kind, b.id, used, b.limit, now / b.slot - now / b.slot % 1, b.slot, used }
  for n = 1, WINDOW_SLOTS do view[COUNTS + n] = 0 end
  return view, changed
end

-- When nothing is remembered any more of a band.
local function empty_at(b, view)
  local used = view[3]
  if used <= 0 then return now end
  if view[1] == QUOTA then
    if used > b.limit then return view[END] + b.longest end
    return view[END]
  end
  if view[1] == CONCURRENCY then return view[KEPT] end
  for n = 0, WINDOW_SLOTS do
    if view[COUNTS + n] > 0 then return (view[NEWEST] - n + WINDOW_SLOTS + 1) * view[LENGTH] end
  end
  return now
end

-- Whether the demand after e in demands fits, and how long it must wait. It finds out how
-- much it is granted, and the levels and views, which follow index n.
function kinds.fits(e, k, state, list, n)
  if not state.records then kinds.with_records(k, state) end
  local cost, least, holder, status, longest = demands[e + 4], demands[e + 5], holders[e / 6 + 1], OK, 0
  for i = 1, list.count do
    local b, view = list[i], kinds.view_of(state, list, i, holder)
    views[n + i], levels[n + i], waits[n + i] = view, view[3], 0
    if least < cost then
      local left = math.max(0, b.limit - view[3])
      if b.kind ~= CONCURRENCY then
        cost = math.min(cost, math.floor(left / b.unit))
      elseif left == 0 then
        cost = 0
      end
    end
  end
  cost = math.max(cost, least)
  demands[e + 4] = cost
  for i = 1, list.count do
    local b, price = list[i], cost * list[i].unit
    if b.kind == CONCURRENCY and holder.id and cost > 0 then price = 1 end
    if price > b.limit then
      status = TOO_COSTLY
    elseif levels[n + i] + price > b.limit then
      waits[n + i] = b.kind == BUCKET and moment_of(b, levels[n + i] + price - b.limit) - now or 9007199254740992 -- for ever
      longest = math.max(longest, waits[n + i])
    end
  end
  return status, longest
end

-- When every band of a list is full, given their views, which follow index first.
local function full_views(list, first)
  local full = now
  for i = 1, list.count do
    local view, moment = views[first + i], now
    if view[1] ~= BUCKET then
      moment = empty_at(list[i], view)
    elseif view[3] > 0 then
      moment = moment_of(list[i], view[3])
    end
    if moment > full then full = moment end
  end
  return full
end

-- Keeps the views of a list for a key, with new levels, to be written at the end.
function kinds.keep(k, state, list, first, held)
  local records = {}
  for i = 1, list.count do
    local view, level = views[first + i], levels[first + i]
    if view[1] == WINDOW then view[COUNTS] = view[COUNTS] + level - view[3] end
    view[3] = level
    records[i] = view
  end
  state[2], state.records, state.raw, hold[k], full_at[k] = now, records, nil, held, full_views(list, first)
end

-- Follows a clock that stepped back.
function kinds.adopt_clock(k, state, list, first)
  state[2], state.raw, full_at[k] = now, nil, full_views(list, first)
  for _, r in ipairs(state.records) do
    if r[1] == WINDOW then r[NEWEST] = math.min(r[NEWEST], math.floor(now / r[LENGTH]) + 1) end
  end
end

-- The value of a state with records. Nothing is a full bucket.
function kinds.pack(k, state)
  if #state.records == 0 then return '' end
  if state.raw then return state.raw end
  local mixed, f, flat = false, '', {}
  for _, r in ipairs(state.records) do
    if r[1] ~= BUCKET then mixed = true end
  end
  for _, r in ipairs(state.records) do
    f = f .. (mixed and record_formats[r[1]]:sub(2) or 'I3I7I7')
    for p = mixed and 1 or 2, #r do flat[#flat + 1] = r[p] end
  end
  if mixed then
    state.raw = pack('<BI7I7' .. f, MIXED, state[2], hold[k], unpack(flat))
  else
    state.raw = pack('<BI7' .. f, VERSION, state[2], unpack(flat))
    if hold[k] > 0 then state.raw = state.raw .. pack('<I7', hold[k]) end
  end
  return state.raw
end

-- What comes back to a band, in units, of tokens that were taken at a moment and are due at
-- another, the end of its period for a quota.
function kinds.give_back(b, view, tokens, taken_at, due)
  if b.kind == QUOTA then
    return view[END] == due and math.max(0, math.min(tokens * b.unit, view[3])) or 0
  end
  local n = view[NEWEST] - math.floor(taken_at / b.slot)
  if n < 0 or n > WINDOW_SLOTS then return 0 end
  local units = math.min(tokens * b.unit, view[COUNTS + n])
  view[COUNTS + n] = view[COUNTS + n] - units
  view[COUNTS] = view[COUNTS] + units -- which keep subtracts
  return units
end

-- Releases or renews the slot of a holder. It returns how many slots are free again, and
-- whether the holder had one.
function kinds.release(b, view, holder, renew)
  local till = holder.id and tonumber(call('ZSCORE', KEYS[holder.k], holder.id) or 0) or 0
  if till <= now then return 0, false end
  if renew then
    hold_slot(b, view, holder)
    return 0, true
  end
  call('ZREM', KEYS[holder.k], holder.id)
  return 1, true
end

-- Fast paths as in decide.lua, for a take from a key that no other request of the call has.
-- One quota of one key, in the period of its value.
kinds.take[QUOTA] = function(d, said)
  local k, list, cost = demands[d + 1], lists[demands[d + 2]], demands[d + 4]
  local b, value, used, last = list[1], stored[k] or '', 0, nil
  if not stored[k] then
    if not b.last then
      local _, last = period_of(b)
      b.last = last
    end
    last = b.last
  else
    if #value ~= 40 then return false end
    local version, written, held, kind, id, limit
    version, written, held, kind, id, used, limit, last = unpack_from('<BI7I7BI3I7I7I7', value)
    if version ~= MIXED or kind ~= QUOTA or id ~= b.id or limit ~= b.limit or held > 0 or written > now or last <= now then return false end
  end
  local after = used + cost * b.unit
  if after > b.limit or cost == 0 then return false end
  if b.expires_for ~= last then
    b.expires_for, b.expires, b.lifetime = last, expiry_of(last)
  end
  values[said + 1], values[said + 2], values[said + 3], values[said + 4] = 1, OK, #value, value
  write(k, pack('<BI7I7BI3I7I7I7', MIXED, now, 0, QUOTA, b.id, after, b.limit, last), b.expires, b.lifetime)
  return true
end

-- One quota of each of several keys. The new values are kept by demand, and written if all
-- fit.
local after, after_expires, after_lifetime = {}, {}, {}
function kinds.take_quotas(asked, d, said)
  local now, n, e = now, said + 1, d -- the first is whether it is admitted
  for j = 1, asked do
    local b, value, cost = lists[demands[e + 2]][1], stored[demands[e + 1]], demands[e + 4]
    local used, last = 0, nil
    if not value then
      if not b.last then
        local _, last = period_of(b)
        b.last = last
      end
      value, last = '', b.last
    else
      if #value ~= 40 then return false end
      local version, written, held, kind, id, limit
      version, written, held, kind, id, used, limit, last = unpack_from('<BI7I7BI3I7I7I7', value)
      if version ~= MIXED or kind ~= QUOTA or id ~= b.id or limit ~= b.limit or held > 0 or written > now or last <= now then return false end
    end
    used = used + cost * b.unit
    if used > b.limit or cost == 0 then return false end
    if b.expires_for ~= last then
      b.expires_for, b.expires, b.lifetime = last, expiry_of(last)
    end
    values[n + 1], values[n + 2], values[n + 3] = OK, #value, value
    after[j] = pack('<BI7I7BI3I7I7I7', MIXED, now, 0, QUOTA, b.id, used, b.limit, last)
    after_expires[j], after_lifetime[j] = b.expires, b.lifetime
    n, e = n + 3, e + 6
  end
  values[said + 1] = 1
  for j = 1, asked do
    write(demands[d + 1], after[j], after_expires[j], after_lifetime[j])
    d = d + 6
  end
  return true
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
    if #value ~= 166 then return false end
    local version, written, held, kind, id, limit, newest, length
    version, written, held, kind, id, used, limit, newest, length, count = unpack_from('<BI7I7BI3I7I7I7I7I7', value)
    if version ~= MIXED or kind ~= WINDOW or id ~= b.id or limit ~= b.limit or length ~= b.slot or held > 0 or written > now or newest > current then return false end
    local gone = current - newest
    if gone == 0 then
      older = sub(value, 55)
    elseif gone > WINDOW_SLOTS then
      used, count, older = 0, 0, b.none
    else
      local cut = 167 - 7 * gone
      for at = cut, 160, 7 do used = used - unpack_from('<I7', value, at) end
      count, older = 0, rep('\0', 7 * gone - 7) .. sub(value, 48, cut - 1)
    end
  end
  local price = cost * b.unit
  if used + price > b.limit or cost == 0 then return false end
  values[said + 1], values[said + 2], values[said + 3], values[said + 4] = 1, OK, #value, value
  write(k, pack('<BI7I7BI3I7I7I7I7I7', MIXED, now, 0, WINDOW, b.id, used + price, b.limit, current, b.slot, count + price) .. older, b.expires, b.lifetime)
  return true
end

-- One slot of one key whose holders are kept for long enough.
kinds.take[CONCURRENCY] = function(d, said)
  local k, list, cost, holder, value = demands[d + 1], lists[demands[d + 2]], demands[d + 4], holders[d / 6 + 1], stored[demands[d + 1]]
  local b = list[1]
  if not value or #value ~= 47 or cost == 0 or not holder.id then return false end
  local version, written, held, kind, id, _, limit, _, kept = unpack_from('<BI7I7BI3I7I7I7I7', value)
  if version ~= MIXED or kind ~= CONCURRENCY or id ~= b.id or limit ~= b.limit or held > 0 or written > now or kept < now + b.hold or kept > now + 2 * b.hold then return false end
  local count = call('ZCOUNT', KEYS[holder.k], format('(%.0f', now), '+inf')
  if count >= limit then return false end
  call('ZADD', KEYS[holder.k], format('%.0f', now + b.hold), holder.id)
  value = pack('<BI7I7BI3I7I7I7I7', MIXED, written, 0, CONCURRENCY, id, count, limit, 0, kept)
  values[said + 1], values[said + 2], values[said + 3], values[said + 4] = 1, OK, #value, value
  return true
end

return kinds
