-- commit.lua: one atomic change of one rule set.
--
-- Compares the base of the change with the current revision, then writes the document,
-- the line of the history, and last the head, which makes the revision current.
--
-- A client that gets no answer may send the same change again. So a change has a token,
-- kept as long as its revision. A known token means that the change was made, and the
-- script returns the lost answer.
--
-- Redis does not roll back a script when a command fails. So every key is read before the
-- first write, which detects wrong types; the first write is one that a full server
-- rejects; and the head is written last: data for a revision after the head is not read,
-- and the next change overwrites it.
--
-- The overrides of a rule set are deleted with it, and again before it is put after its deletion: a
-- former version of FluxGate leaves them. Their revision is then that of a forgotten deletion, which
-- tells readers of changes to read all of them: none.
--
-- Revisions are compared as strings and counted as doubles, which are exact to 2^53. Only
-- keys in KEYS are accessed.
--
-- KEYS[1]  heads      hash    rule set id -> "REVISION" or "REVISION deleted"
--                             :rule set id -> "REVISION COMMIT"
-- KEYS[2]  names      zset    ids of the rule sets that exist, all with score 0
-- KEYS[3]  current    hash    rule set id -> its newest line of history
-- KEYS[4]  history    hash    revision -> line, of this rule set
-- KEYS[5]  documents  hash    revision -> JSON, of this rule set
-- KEYS[6]  changes    hash    token -> revision, of this rule set
-- KEYS[7]  bytes      hash    rule set id -> total bytes of its documents
-- KEYS[8...13]        the first six keys of putoverrides.lua, for a deletion and for base 0. They may not
--                     exist, and a change must not fail because of this while their slot moves.
-- ARGV[1]  id         of the rule set
-- ARGV[2]  base       the revision that the change is based on, 0 for none
-- ARGV[3]  token      of this change
-- ARGV[4]  keep       how many revisions are kept
-- ARGV[5]  what       put or deleted
-- ARGV[6]  words      author, newline, comment
-- ARGV[7]  document   JSON; empty for a deletion
-- ARGV[8]  most       how many bytes of documents are kept; the last two revisions are always kept
-- Returns  { 'done', revision }
--          { 'conflict', current revision, 0 if there is none }
--          { 'missing' }      the rule set to delete does not exist
--          { 'damaged', the head }
--
-- A line of the history is "REVISION WHAT MICROSECONDS TOKEN\nAUTHOR\nCOMMENT".

local heads, names, current, history, documents, changes, bytes,
  override_revisions, override_forgotten, overrides = unpack(KEYS)
local FIRST_OVERRIDE_KEY, LAST_OVERRIDE_KEY = 10, 13 -- those of this rule set
local id, base, token, keep, what, words, document, most = unpack(ARGV)
local call, format = redis.call, string.format

local MOST_PRUNED = 1000 -- per change: a large revision or a lower limit may remove many small ones
local MOST_DIGITS = 15  -- below 2^53
local COMMIT = 10       -- characters of the token, which are 50 bits

-- Was this change made already?
local made = call('HGET', changes, token)
if made then return { 'done', made } end

-- Is it based on the current revision?
local head = call('HGET', heads, id)
local revision, state = '0', ' deleted'
if head then
  revision, state = head:match('^([1-9]%d*)(.*)$')
  if not revision or #revision > MOST_DIGITS or (state ~= '' and state ~= ' deleted') then
    return { 'damaged', head }
  end
end
local at = state == '' and revision or '0'
if base ~= at then return { 'conflict', at } end
if what == 'deleted' and at == '0' then return { 'missing' } end

local held = (tonumber(call('HGET', bytes, id) or '') or 0) + #document

-- Read the remaining keys, to check their type.
call('HLEN', current)
call('ZCARD', names)
call('HLEN', history)
call('HLEN', documents)
local override_revision
local orphans = head and overrides and call('HLEN', overrides) > 0
if orphans then
  override_revision = call('HGET', override_revisions, id)
  call('HGET', override_forgotten, id)
end

local now = call('TIME')
revision = format('%.0f', tonumber(revision) + 1)
local line = format('%s %s %s%06d %s\n', revision, what, now[1], now[2], token) .. words

call('HSET', history, revision, line)
if what == 'put' then
  call('HSET', documents, revision, document)
  call('ZADD', names, 0, id)
else
  call('ZREM', names, id)
end
call('HSET', current, id, line)
call('HSET', changes, token, revision)
-- Servers of the version before do not write it: it counts for its revision only.
call('HSET', heads, ':' .. id, revision .. ' ' .. token:sub(1, COMMIT))

if orphans then
  -- DEL would block Redis until 100,000 are freed, but a user of a former ACL may lack UNLINK.
  for i = FIRST_OVERRIDE_KEY, LAST_OVERRIDE_KEY do
    if type(redis.pcall('UNLINK', KEYS[i])) == 'table' and type(redis.pcall('DEL', KEYS[i])) == 'table' then
      return redis.error_reply('NOPERM to delete the overrides of a rule set the Redis user needs +unlink')
    end
  end
  local last = format('%.0f', (tonumber(override_revision or '0') or 0) + 1)
  call('HSET', override_forgotten, id, last)
  call('HSET', override_revisions, id, last)
end

-- Delete the oldest revisions beyond a limit. Revisions have no gaps, so the number of
-- lines determines the oldest.
local lines = call('HLEN', history)
local oldest = tonumber(revision) - lines + 1
for old = oldest, oldest + MOST_PRUNED - 1 do
  if lines <= tonumber(keep) and (lines <= 2 or held <= tonumber(most)) then break end
  local field = format('%.0f', old)
  local gone = call('HGET', history, field)
  local its_token = gone and gone:match('^%d+ %l+ %d+ (%w+)\n')
  if its_token then call('HDEL', changes, its_token) end
  held = math.max(0, held - call('HSTRLEN', documents, field))
  call('HDEL', history, field)
  call('HDEL', documents, field)
  lines = lines - 1
end
call('HSET', bytes, id, format('%.0f', held))

call('HSET', heads, id, what == 'put' and revision or revision .. ' deleted')
return { 'done', revision }
