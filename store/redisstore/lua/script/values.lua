-- values.lua: the stored values, and when they expire.
--
-- A value is packed: uint8 version, uint56 at, and a record for each band: uint32 tag
-- (24 bits id, 4 kind, 3 tick as a power of 1,000 microseconds, and the highest if the record
-- is kept), uint56 used, uint56 limit; of a token bucket uint56 rate; of a quota uint56 end of
-- its period, and how long one lasts at most; of a window uint56 number of the newest slot,
-- uint56 length of a slot, 17 uint56 used in each slot, the newest first; of a kept record
-- uint56 since when. While requests wait the last record is uint32 tag of kind 15, uint56 how
-- long after at the last of them is due. The odd sizes keep a value of one band in one small
-- allocation. docs/redis.md has it as a table.

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

local stored = redis.pcall('MGET', unpack(KEYS))
if stored.err then
  -- While a slot moves, a key that expired after the server had checked the call looks like
  -- one that has moved. Nothing was written yet.
  if string.find(stored.err, 'rehashing of the slot') or string.find(stored.err, 'non local key') then
    return { err = 'TRYAGAIN ' .. stored.err }
  end
  return stored
end

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
