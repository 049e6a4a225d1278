-- putoverrides.lua: writes and deletes overrides of one rule set, all or none.
--
-- Compares the bases of all changes with the current revisions, then writes the entries,
-- and last the revision of the rule set, which makes them visible to readers of changes.
--
-- As in commit.lua a batch has a token, so that a client that gets no answer can send it
-- again; every key is read before the first write; and revisions are exact below 2^53. The
-- tokens of the last batches are kept.
--
-- A deleted override stays as an entry, so that readers of changes learn of it. The oldest
-- deleted ones are forgotten when there are more of them than others and 1,000.
--
-- KEYS[1]  revisions  hash    rule set id -> revision of its last change
-- KEYS[2]  forgotten  hash    rule set id -> revision of the last forgotten deletion
-- KEYS[3]  entries    hash    override id -> entry, of this rule set
-- KEYS[4]  changes    zset    override ids by the revisions of their last changes
-- KEYS[5]  list       zset    positions (END and id) of the overrides that exist, score 0
-- KEYS[6]  deleted    zset    ids of deleted overrides by revision
-- KEYS[7]  tokens     zset    tokens of the last batches by revision
-- KEYS[8]  heads      hash    rule set id -> head
-- KEYS[9]  record     hash    id, epoch; only for overrides of rules that are not in Redis
-- ARGV[1]  id         of the rule set
-- ARGV[2]  token      of this batch
-- ARGV[3]  most       how many overrides a rule set can have
-- ARGV[4...7]         only with KEYS[9]: the id and the epoch that it must have, empty for none,
--                     and those that it gets then
-- ARGV[4/8...]        for each change: the id of the override, the base (a revision, 0 for any
--                     or -1 for none), END or deleted, JSON
-- Revisions begin with the time, in tens of microseconds, and the one before the first is the
-- last that was forgotten: a reader of data that was lost since then reads all of the new.
--
-- Returns  { 'done', revision of the rule set, nil if there is none }
--          { 'conflict', override id, current revision, nil if there is none }
--          { 'full' }
--          { 'missing' }      the rule set was deleted
--          { 'record' }       the data has another record
--          { 'damaged', override id, empty if the revision of the rule set is }
--
-- An entry is "REVISION END MICROSECONDS\nJSON". END has 16 hexadecimal digits.

local revisions, forgotten, entries, changes, list, deleted, tokens, heads, record = unpack(KEYS)
local set, token, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local call, format = redis.call, string.format

local FIRST, FIELDS = record and 8 or 4, 4 -- of the changes in ARGV
local MOST_DELETED = 1000    -- beside as many as there are overrides
local MOST_TOKENS = 100
local END_DIGITS = 16
local MOST_DIGITS = 15       -- below 2^53

-- Was this batch written already?
local made = call('ZSCORE', tokens, token)
if made then return { 'done', made } end

if record and ((call('HGET', record, 'id') or '') ~= ARGV[4] or (call('HGET', record, 'epoch') or '') ~= ARGV[5]) then
  return { 'record' }
end
if (call('HGET', heads, set) or ''):find(' deleted', 1, true) then return { 'missing' } end

local revision = call('HGET', revisions, set)
if revision and (not revision:match('^[1-9]%d*$') or #revision > MOST_DIGITS) then return { 'damaged', '' } end

-- end_in_list finds an override in the list, which takes long: only for a damaged entry.
local function end_in_list(id)
  for _, position in ipairs(call('ZRANGE', list, 0, -1)) do
    if position:sub(END_DIGITS + 1) == id then return position:sub(1, END_DIGITS) end
  end
end

-- Is every change based on the current revision? A change with any base replaces a damaged
-- entry.
local ends, damaged, added = {}, {}, 0 -- ends of the overrides that exist, by id
for i = FIRST, #ARGV, FIELDS do
  local id, base, new_end = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local entry, current = call('HGET', entries, id), '0'
  local at, old_end = (entry or ''):match('^([1-9]%d*) (%w+) %d+\n')
  if not at and (entry or call('ZSCORE', changes, id)) then
    if base ~= '0' then return { 'damaged', id } end
    ends[id], damaged[id] = end_in_list(id), true
  elseif at and old_end ~= 'deleted' then
    current, ends[id] = at, old_end
  end
  if base ~= '0' and base ~= current and not (base == '-1' and current == '0') then
    return { 'conflict', id, current ~= '0' and current }
  end
  if new_end == 'deleted' then
    if ends[id] then added = added - 1 end
  elseif not ends[id] then
    added = added + 1
  end
end
local there = call('ZCARD', list)
if added > 0 and there + added > most then return { 'full' } end

-- Read the remaining keys, to check their type.
call('HGET', forgotten, set)
call('ZCARD', changes)
call('ZCARD', deleted)

local now = call('TIME')
local micros = format('%s%06d', now[1], now[2])
local start = tonumber(now[1]) * 100000 + math.floor(tonumber(now[2]) / 10)
local last = revision and tonumber(revision) or start
for i = FIRST, #ARGV, FIELDS do
  local id, new_end, json = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local old_end = ends[id]
  if new_end ~= 'deleted' or old_end or damaged[id] then
    last = last + 1
    local at = format('%.0f', last)
    call('HSET', entries, id, at .. ' ' .. new_end .. ' ' .. micros .. '\n' .. json)
    call('ZADD', changes, at, id)
    if old_end and old_end ~= new_end then call('ZREM', list, old_end .. id) end
    if new_end == 'deleted' then
      call('ZADD', deleted, at, id)
    else
      call('ZADD', list, 0, new_end .. id)
      call('ZREM', deleted, id)
    end
  end
end
if not revision then
  if last == start then return { 'done' } end -- there is nothing to delete
  call('HSET', forgotten, set, format('%.0f', start))
end
revision = format('%.0f', last)

local extra = call('ZCARD', deleted) - call('ZCARD', list) - MOST_DELETED
if extra > 0 then
  local old = call('ZRANGE', deleted, 0, extra - 1, 'WITHSCORES')
  for i = 1, #old, 2 do
    call('HDEL', entries, old[i])
    call('ZREM', changes, old[i])
    call('ZREM', deleted, old[i])
  end
  call('HSET', forgotten, set, old[#old])
end

if record and ARGV[4] == '' then call('HSET', record, 'id', ARGV[6], 'epoch', ARGV[7]) end
call('ZADD', tokens, revision, token)
for _, old in ipairs(call('ZRANGE', tokens, 0, -MOST_TOKENS - 1)) do call('ZREM', tokens, old) end
call('HSET', revisions, set, revision)
return { 'done', revision }
