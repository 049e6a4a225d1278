-- records.lua: the records of a state, from and to its value.
--
-- The state of a key then has records, brought to now. A record is a list of tag, used, limit,
-- and the rest by its kind. since is set in those that are kept: a take did not ask for them.
-- internal/bucket has the same in Go, where State.Store says why records are kept.

local MAX_BANDS, MAX_RECORDS = 16, 32
local KEPT = 128 * IDS -- added to the tag of a record that is kept
local KEPT_FOR = 3600000000 -- for how long, in microseconds
local MAX = 9007199254740992 -- 2^53
-- Where a record has the rate of a token bucket; the end of the period of a quota, and how
-- long one lasts at most; the number of the newest slot, the length and the counts of a window.
local RATE, END, LONGEST, NEWEST, LENGTH, COUNTS = 4, 4, 5, 4, 5, 6
local byte, floor, fmod = string.byte, math.floor, math.fmod

local hold, full_at, levels, waits, views = shared.hold, shared.full_at, shared.levels, shared.waits, shared.views
local regained, moment_of, given_back = shared.regained, shared.moment_of, shared.given_back

local kinds = {}

local function kind_of(tag) return floor(tag / IDS) % 16 end
local function tick_of(tag) return 1000 ^ (floor(tag / TICKS) % 8) end

-- The formats of records after the tag, by kind.
local formats = { [BUCKET] = '<I7I7I7', [QUOTA] = '<I7I7I7I7', [WINDOW] = '<I7I7I7I7' .. rep('I7', WINDOW_SLOTS + 1) }

-- Brings a record that was written at a moment to now. A clock that stepped back counts as
-- no time.
local function bring(r, at)
  local kind = kind_of(r[1])
  r.at, r.written = at, r[2]
  if kind == BUCKET then
    r[2] = math.max(0, r[2] - regained(r[RATE], tick_of(r[1]), at, now))
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
    if p + 10 > #value or held > 0 then return nil end
    local tag = unpack_from('<I4', value, p)
    local f = formats[kind_of(tag)]
    if tag == HOLD then
      held = unpack_from('<I7', value, p + 4)
      p = p + 11
    elseif not f or #records == MAX_RECORDS or p + 3 + struct.size(f) + (tag >= KEPT and 7 or 0) > #value then
      return nil
    else
      local r = { tag, unpack_from(f, value, p + 4) }
      p, r[#r] = r[#r], nil
      if tag >= KEPT then
        r[1] = tag - KEPT
        r.since, p = unpack_from('<I7', value, p)
      end
      if kind_of(tag) == WINDOW and r[LENGTH] == 0 then return nil end
      if kind_of(tag) == BUCKET and (r[RATE] == 0 or tick_of(tag) > 1000000) then return nil end
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
    for p = 3, #state, 4 do
      state.records[#state.records + 1] = { state[p], state[p + 1], state[p + 2], state[p + 3] }
    end
  end
  bring_all(k, state)
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
