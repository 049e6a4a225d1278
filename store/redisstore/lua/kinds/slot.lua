-- slot.lua: a slot of a concurrency band.

-- When the last of those that hold slots of a band loses its slot. Of many holders it is when a
-- new one would: to find the last takes longer the more there are, and it came a short time ago.
local MANY_HOLDERS = 128
local function last_end(b, holder, held)
  if held == 0 then return 0 end
  if held > MANY_HOLDERS then return now + b.hold end
  local ends = call('ZRANGEBYSCORE', KEYS[holder.k], format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', held - 1, 1)
  return tonumber(ends[2])
end

-- Gives a slot until a moment, or renews it. The set expires some time after the last end, so
-- that its expiry need not be renewed with every slot. Holders that have lost their slots are
-- removed then.
local function hold_slot(b, holder, till)
  call('ZADD', KEYS[holder.k], format('%.0f', -now), 'at', format('%.0f', till), holder.id)
  local left = till - now
  if not time_is_passed_in and call('PTTL', KEYS[holder.k]) * 1000 < left then
    call('PEXPIRE', KEYS[holder.k], format('%d', 2 * left / 1000 + 1))
    call('ZREMRANGEBYSCORE', KEYS[holder.k], '(0', format('%.0f', now))
  end
end
