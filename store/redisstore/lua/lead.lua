-- lead.lua: which gateway delivers the warnings.
--
-- KEYS[1]  the id of that gateway
-- ARGV     id of the caller, how long it leads in ms
-- Returns  1 if the caller leads

local leader = redis.call('MGET', KEYS[1])[1]
if leader and leader ~= ARGV[1] then return 0 end
redis.call('PSETEX', KEYS[1], ARGV[2], ARGV[1])
return 1
