-- listoverrides.lua: the overrides of a rule set, those that end first before others.
--
-- KEYS[1]  entries  hash    override id -> entry, of this rule set
-- KEYS[2]  list     zset    positions (END and id) of the overrides that exist, score 0
-- ARGV[1]  from     first position, in the syntax of ZRANGE BYLEX
-- ARGV[2]  limit    at most 1,000
-- ARGV[3]  longest  longest entry that is read, in bytes
-- Returns  { position, entry, position, entry, ... }, an entry nil if it is missing

local END_DIGITS = 16

local from, limit, longest = unpack(ARGV)
local answer = {}
for _, position in ipairs(redis.call('ZRANGE', KEYS[2], from, '+', 'BYLEX', 'LIMIT', 0, limit)) do
  local entry = redis.call('HGET', KEYS[1], position:sub(END_DIGITS + 1))
  answer[#answer + 1] = position
  answer[#answer + 1] = entry and entry:sub(1, longest)
end
return answer
