-- steps.lua: quotas and sliding windows, which regain by steps.

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

-- The record of a window brought to now. It keeps its numbers: under those of a band with a
-- shorter period the rest would be lost.
local function window_at(r, tag)
  local view = window_of({ tag = tag, limit = r[3], slot = r[LENGTH] }, r, 0, now)
  view.since = r.since
  return view
end
