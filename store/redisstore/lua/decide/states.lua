-- states.lua: the states of buckets, from their values to what is written at the end. The modules
-- in this folder are the body of the function define_decide: see script/shared.lua.

local KEYS, call = KEYS, redis.call
local unpack, pack, unpack_from, byte = unpack, struct.pack, struct.unpack, string.byte

local now, lists, demands, values = shared.now, shared.lists, shared.demands, shared.values
local regained, moment_of, given_back = shared.regained, shared.moment_of, shared.given_back
local stored, value_format, expiry_of, write = shared.stored, shared.value_format, shared.expiry_of, shared.write

-- The states by key. Where a value has exactly the bands that are asked for, all of them token
-- buckets, a state is as it is packed: version, at, and from 4 * i - 1 on the tag, used, limit
-- and rate of band i. Any other has records: see kinds/records.lua. Besides: how long after at
-- the last waiting request is due, and once it changed, when it is full.
local states, hold, full_at, unreadable = {}, shared.hold, shared.full_at, {}
-- Of the request at hand by band: its level, how long it makes the request wait, and its record.
local levels, waits, views = shared.levels, shared.waits, shared.views

local kinds = shared.kinds
local function need_kinds()
  kinds = kinds or define_kinds(shared)
  return kinds
end

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

-- The used units of band i now, in a state without records.
local function level_of(state, b, i)
  local level = state[4 * i] - regained(b.rate, b.tick, state[2], now)
  if level < 0 then return 0 end
  return level
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
      local moment = moment_of(list[i].rate, list[i].tick, level)
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

-- Writes the states that changed.
function shared.write_changes(expiries)
  for k, full in pairs(full_at) do
    if full > now then
      local state, value = states[k], nil
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
end
