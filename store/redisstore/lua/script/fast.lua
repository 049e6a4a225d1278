-- fast.lua: fast paths for a take from keys that no other request of the call has, if the bands
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
      local moment = moment_of(b.rate, b.tick, price)
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

-- The value of one band after a take, when it expires, and the level before.
local function band_after(list, cost, value)
  if #value ~= 33 then return false end
  local b = list[1]
  local version, written, tag, used, limit, rate = unpack_from('<BI7I4I7I7I7', value)
  if version ~= VERSION or tag ~= b.tag or limit ~= b.limit or rate ~= b.rate or written > now then return false end
  local level = used - regained(rate, b.tick, written, now)
  if level < 0 then level = 0 end
  local after = level + cost * b.unit
  if after > limit or cost == 0 then return false end
  local expires, lifetime = expiry_of(moment_of(rate, b.tick, after))
  return pack('<BI7I4I7I7I7', VERSION, now, tag, after, limit, rate), expires, lifetime, level
end

-- One band of one key.
local function take_one(d)
  local k, list, cost = demands[d + 1], lists[demands[d + 2]], demands[d + 4]
  local value, expires, lifetime, level = stored[k], nil, nil, nil
  if value then
    value, expires, lifetime, level = band_after(list, cost, value)
  else
    value, expires, lifetime = used_once(list, cost)
  end
  if not value then return false end
  values[said + 1], values[said + 2], values[said + 3] = 1, OK, level or 0
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
    if stored_value and bands == 1 then
      n = n + 1
      after[j], after_expires[j], after_lifetime[j], values[n] = band_after(list, cost, stored_value)
      if not after[j] then return false end
    elseif stored_value then
      if #stored_value ~= 8 + 25 * bands or byte(stored_value) ~= VERSION or cost == 0 then return false end
      local state = { unpack_from(value_format(bands), stored_value) }
      local written, full, p = state[2], now, 3
      if written > now then return false end
      for i = 1, bands do
        local b = list[i]
        local rate, limit, tick = b.rate, b.limit, b.tick
        if state[p] ~= b.tag or state[p + 2] ~= limit or state[p + 3] ~= rate then return false end
        local level = state[p + 1] - regained(rate, tick, written, now)
        if level < 0 then level = 0 end
        n = n + 1
        values[n] = level
        level = level + cost * b.unit
        if level > limit then return false end
        state[p + 1] = level
        local moment = moment_of(rate, tick, level)
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
