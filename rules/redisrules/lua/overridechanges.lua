-- overridechanges.lua: the overrides of a rule set that changed after a revision.
--
-- KEYS[1]  revisions  hash    rule set id -> revision of its last change
-- KEYS[2]  forgotten  hash    rule set id -> revision of the last forgotten deletion
-- KEYS[3]  entries    hash    override id -> entry, of this rule set
-- KEYS[4]  changes    zset    override ids by the revisions of their last changes
-- ARGV[1]  id         of the rule set
-- ARGV[2]  after      a revision
-- ARGV[3]  limit      at most 1,000
-- ARGV[4]  longest    longest entry that is read, in bytes
-- Returns  { revision, forgotten, id, revision, entry, id, revision, entry, ... }, the first
--          two and an entry nil if they are missing

local set, after, limit, longest = unpack(ARGV)
local revision = redis.call('HGET', KEYS[1], set)
local answer = { revision, redis.call('HGET', KEYS[2], set) }
if not revision then return answer end

local found = redis.call('ZRANGE', KEYS[4], '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
for i = 1, #found, 2 do
  local entry = redis.call('HGET', KEYS[3], found[i])
  answer[#answer + 1] = found[i]
  answer[#answer + 1] = found[i + 1]
  answer[#answer + 1] = entry and entry:sub(1, longest)
end
return answer
