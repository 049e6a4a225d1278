-- decide.lua: the buckets of FluxGate, on the server that holds them.
--
-- One call decides a list of requests. A request is a list of demands, each for one key
-- with its bands; it takes from all of them or from none. The call reads the clock
-- once, reads all keys at once, and writes each changed key once, to expire when it is
-- full again: an expired bucket and a full one are the same.
--
-- The arithmetic is that of internal/bucket; its package comment explains why it is
-- exact. All numbers are integers below 2^53, which Lua's doubles hold exactly. Only a
-- product of time and rate may pass 2^53, where it is compared with a smaller number
-- and rounding cannot change the answer.
--
-- KEYS     the keys, each once
-- ARGV[1]  what is asked, packed little-endian:
--            now           double   0; tests alone pass the time here
--            lists         uint16   lists of bands, each once however many demand it
--            requests      uint16   takes and peeks
--            demands       uint16   of all of them
--            settlements   uint16
--          per list:
--            bands         uint8, and 128 more if not all are token buckets, and 64 more if it
--                          is one quota that counts refused hits
--            per band      uint32 tag (id, kind and tick, as in a value), double unit, rate,
--                          limit, max, tick
--                          and of those with 128 more, for a quota double begin and end of the
--                          current period, end of the next, longest period; for a window
--                          double length of a slot; for concurrency double hold
--          where not all lists are of token buckets:
--            holders       uint16   demands and settlements on bands that limit concurrency
--          per holder:     uint16 which demand, or after these which settlement, uint16 key of the
--                          holders, 16 bytes who holds a slot, zeros for none
--          per request:    uint8 what it is (0 take, 1 peek, 2 take from keys that nothing
--                          else here asks for, 5 the same from one band that is no token bucket, or from
--                          one quota of each key), uint8 demands
--          per demand, request by request:
--                          uint16 key, uint16 list, uint8 kind (0 enforced, 1 shadow, 2 enforced
--                          overdraft, 3 shadow overdraft, 4 alternative), double cost, double least,
--                          double patience
--          per settlement: uint16 key, uint16 list, double cost, double actual or -1 to renew slots,
--                          double at, per band double due
-- ARGV[2]  the format of the answer, which follows from the input
-- Returns  packed: double now; then per request
--            uint8 admitted; per demand uint8 status, per band double level before the take;
--            of a bucket that cannot be read its version instead of the first level;
--            and where not all bands are token buckets, instead of the levels uint16 length and
--            the value before the take, and per band that limits concurrency two doubles: how
--            many hold a slot, and when the first of them loses it if there is none left
--          then per settlement
--            double tokens: given back, or negative charged; 1 if all slots were renewed
--          and where the time was passed in, per key a double: the moment in ms it
--          would expire, 0 for one that was deleted, -1 for one that was not written.
--
-- A value is packed too: uint8 version, uint56 at, and a record for each band: uint32 tag
-- (24 bits id, 4 kind, 3 tick as a power of 1,000 microseconds, and the highest if the record
-- is kept), uint56 used, uint56 limit; of a token bucket uint56 rate; of a quota uint56 end of
-- its period, and how long one lasts at most; of a window uint56 number of the newest slot,
-- uint56 length of a slot, 17 uint56 used in each slot, the newest first; of a kept record
-- uint56 since when. While requests wait the last record is uint32 tag of kind 15, uint56 how
-- long after at the last of them is due. The odd sizes keep a value of one band in one small
-- allocation. docs/redis.md has it as a table.
--
-- Requests that hold slots of a concurrency band are in a sorted set of their own, by when
-- they lose their slots. Its member "at" has the time of the last change as a negative score.
--
-- This runs hundreds of times in every call, and a function call costs more than the
-- arithmetic. So floor(x) is spelled x - x % 1, values are packed and unpacked at once,
-- and requests that fit at once have code paths of their own.

local VERSION = 3
local BUCKET, QUOTA, WINDOW, CONCURRENCY = 0, 1, 2, 3
local WINDOW_SLOTS = 16
local PEEK, TAKE_ALONE, TAKE_KIND = 1, 2, 5
local OK, REJECTED, TOO_COSTLY, UNREADABLE = 0, 1, 2, 3
local SHADOW, OVERDRAFT, SHADOW_OVERDRAFT, ALTERNATIVE = 1, 2, 3, 4
local HOLD = 15 * 16777216 -- the tag of the record of requests that wait

local KEYS, call, fmod = KEYS, redis.call, math.fmod
local unpack, pack, unpack_from, rep, byte, format, sub = unpack, struct.pack, struct.unpack, string.rep, string.byte, string.format, string.sub

local input = ARGV[1]
local now, list_count, request_count, demand_count, settlement_count, pos = unpack_from('<dI2I2I2I2', input)
local time_is_passed_in = now > 0
if not time_is_passed_in then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Lists of bands. edge is the current tick, counted from 1970.
local lists, any_mixed = {}, false
for l = 1, list_count do
  local list = {}
  list.count, pos = unpack_from('<B', input, pos)
  list.mixed = list.count >= 128
  any_mixed = any_mixed or list.mixed
  list.count = list.count % 128
  list.counts = list.count >= 64
  list.count = list.count % 64
  for i = 1, list.count do
    local tag, unit, rate, limit, max, tick
    tag, unit, rate, limit, max, tick, pos = unpack_from('<I4ddddd', input, pos)
    local b = { kind = BUCKET, tag = tag, unit = unit, rate = rate, limit = limit, max = max, tick = tick, edge = now / tick - now / tick % 1 }
    if list.mixed then
      b.kind = (tag - tag % 16777216) / 16777216 % 16
      if b.kind == QUOTA then
        b.first, b.second, b.third, b.longest, pos = unpack_from('<dddd', input, pos)
        b.counts = list.counts
      elseif b.kind == WINDOW then
        b.slot, pos = unpack_from('<d', input, pos)
      elseif b.kind == CONCURRENCY then
        b.hold, pos = unpack_from('<d', input, pos)
        b.unit = 0 -- a request holds one slot, whatever it costs
        list.slots = i
      end
      b.place = list.slots and i - 1 or i -- the position without the concurrency band
    end
    list[i] = b
  end
  lists[l] = list
end

-- The holders, by the number of their demand or settlement.
local holders, holder_count = {}, 0
if any_mixed then holder_count, pos = unpack_from('<I2', input, pos) end
for _ = 1, holder_count do
  local number, k, id
  number, k, id, pos = unpack_from('<I2I2c16', input, pos)
  holders[number] = { k = k, id = id ~= rep('\0', 16) and id }
end

-- The format of a value, by how many bands it has.
local value_formats = {}
local function value_format(bands)
  local f = value_formats[bands]
  if not f then
    f = '<BI7' .. rep('I4I7I7I7', bands)
    value_formats[bands] = f
  end
  return f
end

-- The state of the buckets, by key. Where a value has exactly the bands that are asked for,
-- all of them token buckets, it is as it is packed: version, at, and from 4 * i - 1 on the tag,
-- used, limit and rate of band i. Any other has records: see kinds.lua. Besides: how long
-- after at the last waiting request is due, and once it changed, when it is full.
local stored = redis.pcall('MGET', unpack(KEYS))
if stored.err then
  -- While a slot moves, a key that expired after the server had checked the call looks like
  -- one that has moved. Nothing was written yet.
  if string.find(stored.err, 'rehashing of the slot') or string.find(stored.err, 'non local key') then
    return { err = 'TRYAGAIN ' .. stored.err }
  end
  return stored
end
local states, hold, full_at, unreadable = {}, {}, {}, {}

-- When a value that is full at a moment expires, in ms, as a number and as text:
-- converting it here costs a third of what the server's conversion does.
local this_ms = now / 1000 - now / 1000 % 1
local function expiry_of(full)
  local expires = full / 1000
  local whole = expires - expires % 1
  if whole < expires then expires = whole + 1 end
  -- A millisecond more, for servers whose expiry clock is slightly behind.
  return expires, format('%d', expires - this_ms + 1)
end

local expiries = {}
local function write(k, value, expires, lifetime)
  if time_is_passed_in then
    expiries[k] = expires
    return call('SET', KEYS[k], value)
  end
  return call('PSETEX', KEYS[k], lifetime, value)
end

-- All requests, two values each, and all demands, six values each.
local requests = { unpack_from('<' .. rep('BB', request_count), input, pos) }
pos = pos + 2 * request_count
local demands = { unpack_from('<' .. rep('I2I2Bddd', demand_count), input, pos) }
pos = pos + 29 * demand_count

-- The values of the answer, and of the request at hand by band: its level, and how
-- long it makes the request wait.
local values, said = { now }, 1
local levels, waits, statuses, views = {}, {}, {}, {}

-- The moment at which units of a band will have come back, at a tick's edge.
local function moment_of(b, units)
  local ticks = units / b.rate
  local whole = ticks - ticks % 1
  if whole < ticks then whole = whole + 1 end
  return (b.edge + whole) * b.tick
end

-- What other states and bands than the usual ones need, from the first that a call has: to
-- define functions takes as long as a decision, and longer with every variable that they
-- share.
local kinds
local function define_kinds(now, time_is_passed_in, stored, hold, full_at, lists, holders, demands, values, levels, waits, views, moment_of, expiry_of, write)
-- kinds.lua
end
local function need_kinds()
  if not kinds then
    kinds = define_kinds(now, time_is_passed_in, stored, hold, full_at, lists, holders, demands, values, levels, waits, views, moment_of, expiry_of, write)
  end
  return kinds
end
if any_mixed then need_kinds() end

-- Whether a state without records has just the bands of a list.
local function fits_list(state, list)
  local p = 3
  for i = 1, list.count do
    local b = list[i]
    if state[p] ~= b.tag or state[p + 2] ~= b.limit or state[p + 3] ~= b.rate then return false end
    p = p + 4
  end
  return state[p] == nil
end

-- The state of a key for a list of bands. Absent means full. A value that cannot be read is
-- not changed, and its requests get its version. The script must not fail here, because it
-- may have written other keys.
local function open(k, list)
  local value, state = stored[k], states[k]
  if not state then
    hold[k] = 0
    if not value then
      state = { VERSION, now }
      if not list.mixed then
        for i = 1, list.count do
          local p = 4 * i - 1
          state[p], state[p + 1], state[p + 2], state[p + 3] = list[i].tag, 0, list[i].limit, list[i].rate
        end
      end
    else
      local bands = (#value - 8) / 25
      local waiting = #value > 33 and (#value - 19) % 25 == 0
      if waiting then bands = (#value - 19) / 25 end
      if byte(value) == VERSION and bands == list.count and not list.mixed then
        state = { unpack_from(value_format(bands), value) }
        state[4 * bands + 3] = nil -- the end position of unpack
        if waiting then
          local tag, held = unpack_from('<I4I7', value, #value - 10)
          hold[k] = held
          if tag ~= HOLD then state = nil end
        end
        if state and not fits_list(state, list) then state = nil end
      end
      if not state then
        state = need_kinds().read(k, value)
        if not state then
          unreadable[k] = byte(value) or 0
          state = { VERSION, now, records = {} }
        end
      end
    end
    states[k] = state
  end
  if state.list ~= list then -- the last list that it was opened for
    if list.mixed or not state.records and not fits_list(state, list) then need_kinds().with_records(k, state) end
    state.list = list
  end
  return state
end

-- The used units of band i now: less what has come back since they were written. A
-- clock that stepped back counts as no time.
local function level_of(state, list, i)
  local b, used, written = list[i], state[4 * i], state[2]
  if now > written then
    -- The product may pass 2^53 and be rounded; used is below, so the sign is right.
    used = used - (b.edge - (written / b.tick - written / b.tick % 1)) * b.rate
    if used < 0 then used = 0 end
  end
  return used
end

-- How long until the last waiting request is due.
local function hold_of(k, state)
  local left = hold[k]
  if left > 0 and now > state[2] then
    left = left - (now - state[2])
    if left < 0 then return 0 end
  end
  return left
end

-- When every band of a list is full, given their levels, which follow index first.
local function full_with(list, levels, first)
  local full = now
  for i = 1, list.count do
    local level = levels[first + i]
    if level > 0 then
      local moment = moment_of(list[i], level)
      if moment > full then full = moment end
    end
  end
  return full
end

-- Keeps the levels of a list for a key, to be written at the end.
local function keep(k, state, list, first, held)
  if state.records then return kinds.keep(k, state, list, first, held) end
  state[2] = now
  for i = 1, list.count do state[4 * i] = levels[first + i] end
  hold[k], full_at[k] = held, full_with(list, levels, first)
end

-- The longest wait until a band has more than 0 left, given the levels after first:
-- what an overdraft needs.
local function wait_until_positive(list, first)
  local longest = 0
  for i = 1, list.count do
    local b, level = list[i], levels[first + i]
    if level >= b.limit and b.kind ~= CONCURRENCY then
      local wait = moment_of(b, level - b.limit + 1) - now
      if wait > longest then longest = wait end
    end
  end
  return longest
end

-- The largest whole number of tokens up to cost that all bands have now, but at least
-- least.
local function grant_of(state, list, least, cost)
  for i = 1, list.count do
    local left = (list[i].limit - level_of(state, list, i)) / list[i].unit
    left = left - left % 1
    if left < cost then cost = left end
  end
  if cost < least then return least end
  return cost
end

-- Decides the request whose demands are after d in demands.
local function decide(op, asked, d)
  -- Does each demand fit, waiting included?
  local admitted, alternatives, over, n, e = 1, 0, 0, 0, d
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
        local b, level = list[i], level_of(state, list, i)
        local price = cost * b.unit
        n = n + 1
        levels[n], waits[n] = level, 0
        if price > b.limit then
          status = TOO_COSTLY
        elseif level + price > b.limit then
          local wait = moment_of(b, level + price - b.limit) - now
          waits[n] = wait
          if wait > longest then longest = wait end
        end
      end
    end
    if kind == OVERDRAFT or kind == SHADOW_OVERDRAFT then
      status, longest = OK, wait_until_positive(list, first)
    elseif kind == ALTERNATIVE then
      alternatives = alternatives + 1
    end
    if status == OK and longest > demands[e + 6] then status = REJECTED end
    if unreadable[k] then
      status, levels[first + 1] = UNREADABLE, unreadable[k]
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
      local value = status == UNREADABLE and string.char(unreadable[k]) or kinds.pack(k, state)
      values[said + 1], values[said + 2] = #value, value
      said = said + 2
      for i = 1, bands do
        if list[i].kind == CONCURRENCY then
          values[said + 1], values[said + 2] = views[n + i][2], views[n + i][4]
          said = said + 2
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
      if kind == OVERDRAFT or kind == SHADOW_OVERDRAFT or list.counts and (status == REJECTED or status == TOO_COSTLY) then
        for i = 1, bands do
          local b, level = list[i], levels[n + i]
          local units = cost * b.unit
          if units > b.max - level then units = b.max - level end
          if units > 0 and status ~= UNREADABLE and b.kind ~= CONCURRENCY then levels[n + i], changed = level + units, true end
        end
        if changed then keep(k, state, list, n, hold_of(k, state)) end
      elseif admitted == 1 and status == OK and cost > 0 then
        local held = hold_of(k, state)
        for i = 1, bands do
          local b, level, wait = list[i], levels[n + i], waits[n + i]
          if wait > 0 then
            -- To the due tick, where the bucket is at most full, and back.
            local due = (now + wait) / b.tick
            local regained = (due - due % 1 - b.edge) * b.rate
            if regained > level then level = regained end
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
end

-- Fast paths for a take from keys that no other request of the call has, if the bands
-- are unchanged and everything fits at once, as for most requests. They are decide()
-- without the tables. In any other case they change nothing and leave the take to
-- decide(). A demand whose whole cost fits is granted all of it, and an overdraft that
-- fits is a take like others.

-- A take from a full bucket: the new value and expiry, which are the same for every
-- full bucket of the rule. false if the cost does not fit.
local function used_once(list, cost)
  if list.cost ~= cost then
    local state, full, fits = { VERSION, now }, now, cost > 0
    for i = 1, list.count do
      local b = list[i]
      local price = cost * b.unit
      local moment = moment_of(b, price)
      local p = 4 * i - 1
      state[p], state[p + 1], state[p + 2], state[p + 3] = b.tag, price, b.limit, b.rate
      if moment > full then full = moment end
      fits = fits and price <= b.limit
    end
    list.cost, list.value = cost, fits and pack(value_format(list.count), unpack(state))
    list.expires, list.lifetime = expiry_of(full)
  end
  return list.value, list.expires, list.lifetime
end

-- One band of one key.
local function take_one(d)
  local k, list, cost = demands[d + 1], lists[demands[d + 2]], demands[d + 4]
  local stored_value, level, value, expires, lifetime = stored[k], 0, nil, nil, nil
  if stored_value then
    if #stored_value ~= 33 then return false end
    local b = list[1]
    local version, written, tag, used, limit, rate = unpack_from('<BI7I4I7I7I7', stored_value)
    if version ~= VERSION or tag ~= b.tag or limit ~= b.limit or rate ~= b.rate or written > now then return false end
    local back = now - written
    if b.tick > 1 then back = b.edge - (written / b.tick - written / b.tick % 1) end
    level = used - back * rate
    if level < 0 then level = 0 end
    local after = level + cost * b.unit
    if after > limit or cost == 0 then return false end
    value = pack('<BI7I4I7I7I7', VERSION, now, tag, after, limit, rate)
    expires, lifetime = expiry_of(moment_of(b, after))
  else
    value, expires, lifetime = used_once(list, cost)
    if not value then return false end
  end
  values[said + 1], values[said + 2], values[said + 3] = 1, OK, level
  said = said + 3
  write(k, value, expires, lifetime)
  return true
end

-- Several bands or keys. The new values are kept by demand, and written if all fit.
local after, after_expires, after_lifetime = {}, {}, {}
local function take_several(asked, d)
  local now, n = now, said + 1 -- the first is whether it is admitted
  for j = 1, asked do
    local list, cost, stored_value = lists[demands[d + 2]], demands[d + 4], stored[demands[d + 1]]
    local bands = list.count
    n = n + 1
    values[n] = OK
    if stored_value then
      if #stored_value ~= 8 + 25 * bands or byte(stored_value) ~= VERSION or cost == 0 then return false end
      local state = { unpack_from(value_format(bands), stored_value) }
      local written, full, p = state[2], now, 3
      if written > now then return false end
      for i = 1, bands do
        local b = list[i]
        local rate, limit, tick = b.rate, b.limit, b.tick
        if state[p] ~= b.tag or state[p + 2] ~= limit or state[p + 3] ~= rate then return false end
        local back = now - written
        if tick > 1 then back = b.edge - (written / tick - written / tick % 1) end
        local level = state[p + 1] - back * rate
        if level < 0 then level = 0 end
        n = n + 1
        values[n] = level
        level = level + cost * b.unit
        if level > limit then return false end
        state[p + 1] = level
        local ticks = level / rate
        local whole = ticks - ticks % 1
        if whole < ticks then whole = whole + 1 end
        local moment = (b.edge + whole) * tick
        if moment > full then full = moment end
        p = p + 4
      end
      state[2] = now
      after[j] = pack(value_format(bands), unpack(state))
      after_expires[j], after_lifetime[j] = expiry_of(full)
    else
      for i = 1, bands do values[n + i] = 0 end
      n = n + bands
      after[j], after_expires[j], after_lifetime[j] = used_once(list, cost)
      if not after[j] then return false end
    end
    d = d + 6
  end
  values[said + 1], said = 1, n
  for j = asked, 1, -1 do
    d = d - 6
    write(demands[d + 1], after[j], after_expires[j], after_lifetime[j])
  end
  return true
end

local d = 0
for r = 1, 2 * request_count, 2 do
  local op, asked, done = requests[r], requests[r + 1], false
  if op == TAKE_ALONE then
    if asked == 1 and lists[demands[d + 2]].count == 1 then
      done = take_one(d)
    else
      done = take_several(asked, d)
    end
  elseif op == TAKE_KIND then
    if asked == 1 then
      done = kinds.take[lists[demands[d + 2]][1].kind](d, said)
    else
      done = kinds.take_quotas(asked, d, said)
    end
    if done then said = done end
  end
  if not done then decide(op, asked, d) end
  d = d + 6 * asked
end

-- Corrects takes to the actual cost. Tokens that could be handed out twice do not come
-- back.
for number = 1, settlement_count do
  local k, l, cost, actual, taken_at
  k, l, cost, actual, taken_at, pos = unpack_from('<I2I2ddd', input, pos)
  local list = lists[l]
  local state = open(k, list)
  local difference, changed, held, due = cost - actual, false, hold_of(k, state), {}
  local tokens = difference
  for i = 1, list.count do due[i], pos = unpack_from('<d', input, pos) end
  if unreadable[k] then
    tokens = 0
  elseif actual == -1 and not list.mixed then
    tokens = 1 -- there are no slots to renew
  elseif state.records then
    tokens = kinds.settle(k, state, list, cost, actual, taken_at, due, holders[demand_count + number])
  else
    for i = 1, list.count do
      local b, units, level = list[i], 0, level_of(state, list, i)
      if difference > 0 and now >= taken_at then -- else how much has overflowed since is unknown
        local last, first = (now + held) / b.tick, due[i] / b.tick
        local gone = ((last - last % 1) - (first - first % 1)) * b.rate
        if gone < 0 then gone = 0 end
        units = math.max(0, math.min(cost * b.unit - gone, difference * b.unit, level))
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
  end
  said = said + 1
  values[said] = tokens
end

-- Write what changed.
for k, full in pairs(full_at) do
  if full > now then
    local state = states[k]
    local value
    if state.records then
      value = kinds.pack(k, state)
    else
      value = pack(value_format((#state - 2) / 4), unpack(state))
      if hold[k] > 0 then value = value .. pack('<I4I7', HOLD, hold[k]) end
    end
    write(k, value, expiry_of(full))
  else
    if stored[k] then call('DEL', KEYS[k]) end
    expiries[k] = 0
  end
end
if time_is_passed_in then
  for k = 1, #KEYS do
    said = said + 1
    values[said] = expiries[k] or -1
  end
end

return pack(ARGV[2], unpack(values))
