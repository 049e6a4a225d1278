-- report.lua: writes what a gateway says about itself.
--
-- KEYS[1]  its report
-- ARGV     how long it lasts in ms, the report

return redis.call('PSETEX', KEYS[1], ARGV[1], ARGV[2])
