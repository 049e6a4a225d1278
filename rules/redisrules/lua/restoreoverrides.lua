-- restoreoverrides.lua: merges a part of a copy of the overrides of a rule set.
--
-- Copies are states of one history of revisions, so that the higher revision of an override is
-- the later one. Readers do not see the entries before the last part has set the revision of the
-- rule set: that is also the last forgotten one, so that all of them read everything again.
--
-- KEYS[1]  revisions  hash    rule set id -> revision of its last change
-- KEYS[2]  forgotten  hash    rule set id -> revision of the last forgotten deletion
-- KEYS[3]  entries    hash    override id -> entry, of this rule set
-- KEYS[4]  changes    zset    override ids by the revisions of their last changes
-- KEYS[5]  list       zset    positions (END and id) of the overrides that exist, score 0
-- KEYS[6]  deleted    zset    ids of deleted overrides by revision
-- KEYS[7]  restored   hash    rule set id -> highest revision of a copy that was restored
-- KEYS[8]  record     hash    id, epoch
-- ARGV[1]  id         of the rule set
-- ARGV[2]  record id  that the data must have
-- ARGV[3]  epoch      the same
-- ARGV[4]  copy       revision of the copy
-- ARGV[5]  unknown    deletions up to this revision are not in the copy
-- ARGV[6]  part       'first', 'last', 'both' or empty
-- ARGV[7...]          for each override: its id, revision, END or deleted, when it was written in
--                     microseconds, JSON
-- Returns  { 'done' } or { 'record' } if the data has another record

local revisions, forgotten, entries, changes, list, deleted, restored, record = unpack(KEYS)
local set, id, epoch, copy, unknown, part = unpack(ARGV)
local call, format = redis.call, string.format
copy, unknown = tonumber(copy), tonumber(unknown)

local FIRST, FIELDS = 7, 5

if call('HGET', record, 'id') ~= id or call('HGET', record, 'epoch') ~= epoch then return { 'record' } end

local before = tonumber(call('HGET', restored, set) or '0')
if copy <= before then return { 'done' } end

-- remove removes the entry of an override, and returns its revision, or 0.
local function remove(override)
  local at, ends = (call('HGET', entries, override) or ''):match('^([1-9]%d*) (%w+) ')
  if not at then return 0 end
  call('HDEL', entries, override)
  call('ZREM', changes, override)
  call('ZREM', list, ends .. override)
  call('ZREM', deleted, override)
  return tonumber(at)
end

-- This copy has forgotten deletions that a copy which was restored before does not know: what was
-- restored gives way to it.
if before > 0 and before < unknown and (part == 'first' or part == 'both') then
  for _, override in ipairs(call('ZRANGE', changes, '-inf', unknown, 'BYSCORE')) do remove(override) end
end
if before < unknown then before = 0 end

for i = FIRST, #ARGV, FIELDS do
  local override, at, ends, micros, json = unpack(ARGV, i, i + FIELDS - 1)
  local revision = tonumber(at)
  local now = tonumber((call('HGET', entries, override) or ''):match('^([1-9]%d*) ') or '0')
  if revision > now and (now > 0 or revision > before) then
    remove(override)
    call('HSET', entries, override, at .. ' ' .. ends .. ' ' .. micros .. '\n' .. json)
    call('ZADD', changes, at, override)
    if ends == 'deleted' then call('ZADD', deleted, at, override) else call('ZADD', list, 0, ends .. override) end
  end
end
if part ~= 'last' and part ~= 'both' then return { 'done' } end

local time = call('TIME')
local start = tonumber(time[1]) * 100000 + math.floor(tonumber(time[2]) / 10)
local last = format('%.0f', math.max(tonumber(call('HGET', revisions, set) or '0'), copy, start) + 1)
call('HSET', forgotten, set, last)
call('HSET', restored, set, format('%.0f', copy))
call('HSET', revisions, set, last)
return { 'done' }
