-- reset.lua: a new generation of a rule or a rule set.
--
-- KEYS[1]  the record, a hash
-- ARGV[1]  the field of the generation
-- ARGV[2]  the generation that the caller knows: the record may have lost it
-- ARGV[3]  the field of the marks
-- ARGV[4]  the mark of this reset, or '' for one that is always done
-- Returns  the generation now, and 1 if it is new or 0 if a reset with the
--          same mark was done before

local call = redis.call
local keep = 8 -- marks: gateways that are late are late by few changes

local generation = math.max(tonumber(call('HGET', KEYS[1], ARGV[1]) or 0), tonumber(ARGV[2]))

if ARGV[4] ~= '' then
  local marks = {ARGV[4]}
  for mark in string.gmatch(call('HGET', KEYS[1], ARGV[3]) or '', '%S+') do
    if mark == ARGV[4] then
      return {generation, 0}
    end
    if #marks < keep then
      marks[#marks + 1] = mark
    end
  end
  call('HSET', KEYS[1], ARGV[3], table.concat(marks, ' '))
end

call('HSET', KEYS[1], ARGV[1], string.format('%.0f', generation + 1))
return {generation + 1, 1}
