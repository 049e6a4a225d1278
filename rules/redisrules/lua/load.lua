-- load.lua: a rule set at one revision.
--
-- Reads the head, the line of the history and the document atomically.
--
-- KEYS[1]  heads      hash    rule set id -> head
-- KEYS[2]  history    hash    revision -> line, of this rule set
-- KEYS[3]  documents  hash    revision -> JSON, of this rule set
-- ARGV[1]  id         of the rule set
-- ARGV[2]  revision   empty for the current one
-- ARGV[3]  longest    longest document that is read, in bytes
-- Returns  { head, line, length of the document, document }, each nil if it is missing;
--          the document is also nil if it is too long

local LONGEST = 2048 -- longer lines are truncated, and then rejected as malformed

local id, revision, longest = unpack(ARGV)
local call = redis.call

local head = call('HGET', KEYS[1], id)
if revision == '' then revision = head and head:match('^%d+') end
if not head or not revision then return { head } end

local line = call('HGET', KEYS[2], revision)
local length = call('HSTRLEN', KEYS[3], revision)
local document = length <= tonumber(longest) and call('HGET', KEYS[3], revision)
return { head, line and line:sub(1, LONGEST), length, document }
