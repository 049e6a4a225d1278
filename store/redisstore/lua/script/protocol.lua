-- protocol.lua: what a call of the decision script asks for and what it returns, and the reading
-- of the former.
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
--                          one quota of each key, 6 take of a request that is rejected already),
--                          uint8 demands
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
--            the value before the take, and per band that limits concurrency three doubles: how
--            many hold a slot, when the first of them loses it if there is none left, and when
--            the last does
--          then per settlement
--            double tokens: given back, or negative charged; 1 if all slots were renewed;
--            and where not all bands are token buckets and no slots are renewed, uint16 length
--            and the value after the settlement
--          and where the time was passed in, per key a double: the moment in ms it
--          would expire, 0 for one that was deleted, -1 for one that was not written.
--
-- This runs hundreds of times in every call, and a function call costs more than the
-- arithmetic. So floor(x) is spelled x - x % 1, values are packed and unpacked at once,
-- and requests that fit at once have code paths of their own.

local TAKE_ALONE, TAKE_KIND = 2, 5

local KEYS, call = KEYS, redis.call
local unpack, pack, unpack_from = unpack, struct.pack, struct.unpack
local rep, byte, format = string.rep, string.byte, string.format

local input = ARGV[1]
local now, list_count, request_count, demand_count, settlement_count, pos = unpack_from('<dI2I2I2I2', input)
local time_is_passed_in = now > 0
if not time_is_passed_in then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Lists of bands.
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
    local b = { kind = BUCKET, tag = tag, unit = unit, rate = rate, limit = limit, max = max, tick = tick }
    if list.mixed then
      b.kind = (tag - tag % IDS) / IDS % 16
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

-- All requests, two values each, and all demands, six values each.
local requests = { unpack_from('<' .. rep('BB', request_count), input, pos) }
pos = pos + 2 * request_count
local demands = { unpack_from('<' .. rep('I2I2Bddd', demand_count), input, pos) }
pos = pos + 29 * demand_count

local values, said = { now }, 1 -- the values of the answer, and how many there are
