-- commit.lua: one change of one rule set, whole or not at all.
--
-- Compares what the change is based on with the current revision, and then writes
-- everything: the document, the line of the history, and last the head, which makes it
-- all current.
--
-- A client that gets no answer may send the same change again. So a change has a token,
-- kept for as long as its revision is: a token that is known is a change that was made,
-- whatever has happened since, and the answer is the one that was lost.
--
-- Redis does not take back what a script has written when a later command fails. So every
-- key is read before the first write, which finds those of a wrong type; the first write
-- is one that a full server refuses; and the head comes last: what was written for a
-- revision that the head has not reached is not read and is overwritten by the next.
--
-- Revisions are compared as text and counted as doubles, which are exact to 2^53. No key
-- is touched that is not in KEYS.
--
-- KEYS[1]  heads      hash    rule set id -> "REVISION" or "REVISION deleted"
-- KEYS[2]  names      zset    ids of the rule sets that exist, all with score 0
-- KEYS[3]  current    hash    rule set id -> its newest line of history
-- KEYS[4]  history    hash    revision -> line, of this rule set
-- KEYS[5]  documents  hash    revision -> JSON, of this rule set
-- KEYS[6]  changes    hash    token -> revision, of this rule set
-- KEYS[7]  bytes      hash    rule set id -> how many bytes its documents have together
-- ARGV[1]  id         of the rule set
-- ARGV[2]  base       the revision that the author has seen, 0 for none
-- ARGV[3]  token      of this change
-- ARGV[4]  keep       how many revisions are kept
-- ARGV[5]  what       put or deleted
-- ARGV[6]  words      author, newline, comment
-- ARGV[7]  document   JSON; empty for a deletion
-- ARGV[8]  most       how many bytes of documents are kept; the last two revisions always are
-- Returns  { 'done', revision }
--          { 'conflict', current revision, 0 if there is none }
--          { 'missing' }      there is nothing to delete
--          { 'damaged', the head }
--
-- A line of the history is "REVISION WHAT MICROSECONDS TOKEN\nAUTHOR\nCOMMENT".

local heads, names, current, history, documents, changes, bytes = unpack(KEYS)
local id, base, token, keep, what, words, document, most = unpack(ARGV)
local call, format = redis.call, string.format

local MOST_PRUNED = 1000 -- of small ones, when a large one comes or a bound was made smaller
local MOST_DIGITS = 15  -- below 2^53

-- Has this very change been made already?
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

-- The keys that have not been read yet, for their type alone.
call('HLEN', current)
call('ZCARD', names)
call('HLEN', history)
call('HLEN', documents)

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

-- Forget the oldest while a bound is passed. Revisions have no gaps, so the number of
-- lines says which one is the oldest.
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
