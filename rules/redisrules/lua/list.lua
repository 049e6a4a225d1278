-- list.lua: the rule sets that exist, by id.
--
-- One script, so that a rule set deleted meanwhile does not shorten the page.
--
-- KEYS[1]  names    zset    ids of the rule sets that exist, all with score 0
-- KEYS[2]  current  hash    rule set id -> its newest line of history
-- ARGV[1]  from     first id, in the syntax of ZRANGE BYLEX
-- ARGV[2]  limit    at most 1,000
-- Returns  { id, line, id, line, ... }, a line nil if it is missing

local LONGEST = 2048 -- longer lines are truncated, and then rejected as malformed

local ids = redis.call('ZRANGE', KEYS[1], ARGV[1], '+', 'BYLEX', 'LIMIT', 0, ARGV[2])
if #ids == 0 then return {} end
local lines = redis.call('HMGET', KEYS[2], unpack(ids))
local answer = {}
for i = 1, #ids do
  answer[2 * i - 1] = ids[i]
  answer[2 * i] = lines[i] and lines[i]:sub(1, LONGEST)
end
return answer
