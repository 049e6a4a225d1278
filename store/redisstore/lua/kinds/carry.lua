-- carry.lua: which record a band continues, and what it carries over from other numbers.

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

-- Whether a record is measured as a band is: a token bucket with the same numbers, a window
-- with the same period, other kinds with any.
local function is_of(r, b)
  if b.kind ~= BUCKET then return kind_of(r[1]) == b.kind and (b.kind ~= WINDOW or r[LENGTH] == b.slot) end
  return floor(r[1] / IDS) == floor(b.tag / IDS) and r[3] == b.limit and r[RATE] == b.rate
end

-- The number of the record with the id of a band, or nil, and whether it is the band's: else
-- what is used carries over. A settlement looks no further: the record at the position may
-- have begun after the take, with another label.
local function find_id(records, b)
  local id, found = b.tag % IDS, nil
  for n, r in ipairs(records) do
    if r[1] % IDS == id then
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
    if list[j].tag % IDS == r[1] % IDS and list[j].kind ~= CONCURRENCY then return nil, false end
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
  written = muldiv(written, b.limit, r[3], b.max) - regained(b.rate, b.tick, r.at or now, now)
  return math.max(0, math.min(used, written))
end
