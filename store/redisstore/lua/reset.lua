-- reset.lua: a new generation of a rule or a rule set.
--
-- A generation is the time in milliseconds, or higher, so that a forgotten one is not
-- used again.
--
-- KEYS[1]  the fleet state, a hash
-- ARGV[1]  the field of the generation
-- ARGV[2]  the generation that the caller knows: the fleet state may have lost it
-- ARGV[3]  the last generation of the rule set and all of its rules that the caller knows
-- ARGV[4]  the field of the marks
-- ARGV[5]  the mark of this reset, or '' for one that is always done
-- ARGV[6]  the mark of the state before, or '': if it is the last mark, a former state has
--          returned, and the reset is done although its mark was used before
-- ARGV[7]  the channel on which the reset is announced
-- ARGV[8]  and so on: fields to forget, at most 2,000
-- Returns  the generation now, 1 if it is new or 0 if a reset with the same mark was
--          done before, and 1 unless the user may not announce it

local call = redis.call
local keep = 8 -- marks: a late gateway is late by few changes

local generation = math.max(tonumber(call('HGET', KEYS[1], ARGV[1]) or 0), tonumber(ARGV[2]))

if ARGV[5] ~= '' then
  local marks = {ARGV[5]}
  local used = call('HGET', KEYS[1], ARGV[4]) or '' -- the last one first
  local returned = ARGV[6] ~= ARGV[5] and string.match(used, '%S+') == ARGV[6]
  for mark in string.gmatch(used, '%S+') do
    if mark == ARGV[5] then
      if not returned then
        return {generation, 0, 1}
      end
    elseif #marks < keep then
      marks[#marks + 1] = mark
    end
  end
  call('HSET', KEYS[1], ARGV[4], table.concat(marks, ' '))
end

local now = call('TIME')
generation = math.max(generation + 1, tonumber(ARGV[3]) + 1, now[1] * 1000 + math.floor(now[2] / 1000))
call('HSET', KEYS[1], ARGV[1], string.format('%.0f', generation))
if #ARGV > 7 then
  call('HDEL', KEYS[1], unpack(ARGV, 8))
end
local announced = redis.pcall('PUBLISH', ARGV[7], '')
return {generation, 1, type(announced) == 'table' and 0 or 1}
