-- fast.lua: fast paths for takes from one band of another kind, as in script/fast.lua. They return
-- the number of values of the answer. They are a function of their own, define_takes, because
-- the other modules in this folder take longer to define than some takes.

local takes = {}

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
    if version ~= VERSION or tag ~= b.tag or limit ~= b.limit or longest ~= b.longest then return nil end
    if written > now or last <= now then return nil end
  end
  used = used + cost
  if used > b.limit or cost == 0 then return nil end
  if b.expires_for ~= last then
    b.expires_for, b.expires, b.lifetime = last, expiry_of(last)
  end
  return pack('<BI7I4I7I7I7I7', VERSION, now, b.tag, used, limit, last, longest), value
end

-- One quota of one key.
takes[QUOTA] = function(d, said)
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
function takes.several_quotas(asked, d, said)
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
takes[WINDOW] = function(d, said)
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
  value = pack('<BI7I4I7I7I7I7I7', VERSION, now, b.tag, used + cost, b.limit, current, b.slot, count + cost) .. older
  write(k, value, b.expires, b.lifetime)
  return said + 4
end

-- One slot of one key.
takes[CONCURRENCY] = function(d, said)
  local b, cost, holder = lists[demands[d + 2]][1], demands[d + 4], holders[d / 6 + 1]
  if cost == 0 or not holder.id then return false end
  local at = redis.pcall('ZSCORE', KEYS[holder.k], 'at')
  if type(at) == 'table' or at and -tonumber(at) > now then return false end
  local held = at and call('ZCOUNT', KEYS[holder.k], format('(%.0f', now), '+inf') or 0
  if held >= b.limit then return false end
  local last = last_end(b, holder, held)
  hold_slot(b, holder, now + b.hold)
  values[said + 1], values[said + 2], values[said + 3], values[said + 4] = 1, OK, 0, ''
  values[said + 5], values[said + 6], values[said + 7] = held, 0, last
  return said + 7
end
