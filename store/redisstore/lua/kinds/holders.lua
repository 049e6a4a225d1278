-- holders.lua: the requests that hold slots of a concurrency band.
--
-- They are in a sorted set of their own, by when they lose their slots. Its member "at" has the
-- time of the last change as a negative score.

-- Follows a clock that stepped back behind the last change of a set of holders: each of them
-- has as much time left as before. It returns false for a key that is no set of holders: an
-- error here would end the call of all requests that share it.
local function shift_holders(holder)
  local score = redis.pcall('ZSCORE', KEYS[holder.k], 'at') or 0
  if type(score) == 'table' then return false end
  local at = -tonumber(score)
  if at <= now then return true end
  local ends = call('ZRANGEBYSCORE', KEYS[holder.k], '(0', '+inf', 'WITHSCORES')
  for n = 1, #ends, 2 do call('ZADD', KEYS[holder.k], format('%.0f', ends[n + 1] - (at - now)), ends[n]) end
  call('ZADD', KEYS[holder.k], format('%.0f', -now), 'at')
  return true
end

-- How many hold slots of a band, and when the first and the last of them lose their slots. The
-- first is only looked up where it is needed. Of a key that is no set of holders nothing is known.
local function held_by(b, holder)
  local held, first = redis.pcall('ZCOUNT', KEYS[holder.k], format('(%.0f', now), '+inf'), 0
  if type(held) == 'table' then return { b.tag, 0, b.limit, 0, 0, unreadable = true } end
  if held >= b.limit then
    local ends = call('ZRANGEBYSCORE', KEYS[holder.k], format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    first = tonumber(ends[2])
  end
  return { b.tag, held, b.limit, first, last_end(b, holder, held) }
end

-- Gives the slots of the demand after e in demands.
function kinds.hold_slots(e, list, first)
  local holder = holders[e / 6 + 1]
  for i = 1, list.count do
    if list[i].kind == CONCURRENCY and holder.id then
      shift_holders(holder)
      hold_slot(list[i], holder, now + list[i].hold)
    end
  end
end

-- Releases or renews the slot of a holder, and returns whether it had one. A slot never ends
-- earlier than before: the band may have had a longer hold.
local function release(b, holder, renew)
  if not shift_holders(holder) then return false end
  local till = holder.id and tonumber(call('ZSCORE', KEYS[holder.k], holder.id) or 0) or 0
  if till <= now then return false end
  if renew then
    hold_slot(b, holder, math.max(till, now + b.hold))
  else
    call('ZREM', KEYS[holder.k], holder.id)
  end
  return true
end
