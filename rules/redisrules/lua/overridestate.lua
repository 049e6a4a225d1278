-- overridestate.lua: what copies of overrides are compared with.
--
-- Notes first which rule sets and rules of overrides are missing, and which are back.
--
-- KEYS[1]  record     hash    id, epoch
-- KEYS[2]  revisions  hash    rule set id -> revision of its last change
-- KEYS[3]  restored   hash    rule set id -> highest revision of a copy that was restored
-- KEYS[4]  waiting    hash    rule set id, or that and a rule id -> since when it is missing
-- ARGV[1]  missing    how many of the following are missing; the others are back
-- ARGV[2...]          rule set ids, or RULESET/RULE
-- Returns  { now, record, revisions, restored, waiting }: now in microseconds, and lists of
--          fields and values

local record, revisions, restored, waiting = unpack(KEYS)
local call = redis.call

local time = call('TIME')
local now = string.format('%s%06d', time[1], time[2])
for i = 2, #ARGV do
  if i <= tonumber(ARGV[1]) + 1 then
    if not call('HGET', waiting, ARGV[i]) then call('HSET', waiting, ARGV[i], now) end
  else
    call('HDEL', waiting, ARGV[i])
  end
end
return { now, call('HGETALL', record), call('HGETALL', revisions), call('HGETALL', restored), call('HGETALL', waiting) }
