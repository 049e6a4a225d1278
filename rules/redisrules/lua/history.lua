-- history.lua: the revisions of a rule set, newest first.
--
-- Revisions have no gaps, so the head determines the newest ones. The first missing
-- revision is the end: all older ones were deleted too.
--
-- KEYS[1]  heads    hash    rule set id -> head
-- KEYS[2]  history  hash    revision -> line, of this rule set
-- ARGV[1]  id       of the rule set
-- ARGV[2]  before   only revisions before this one; 0 for all
-- ARGV[3]  limit    at most 1,000
-- Returns  { head, line, line, ... }, the head nil if there is none

local LONGEST = 2048 -- longer lines are truncated, and then rejected as malformed

local id, before, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local head = redis.call('HGET', KEYS[1], id)
local newest = head and tonumber(head:match('^%d+'))
if not newest then return { head } end

if before ~= 0 then newest = math.min(newest, before - 1) end
local revisions = {}
for revision = newest, math.max(1, newest - limit + 1), -1 do
  revisions[#revisions + 1] = string.format('%.0f', revision)
end
local answer = { head }
if #revisions == 0 then return answer end

local lines = redis.call('HMGET', KEYS[2], unpack(revisions))
for i = 1, #lines do
  if not lines[i] then break end
  answer[i + 1] = lines[i]:sub(1, LONGEST)
end
return answer
