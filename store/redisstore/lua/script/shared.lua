-- shared.lua: what the modules in the folders decide and kinds share with the script. Each folder
-- is the body of a function, which the first request that needs it calls: to define functions
-- takes as long as a decision, and longer with every variable that they share.

local shared = {
  now = now, time_is_passed_in = time_is_passed_in,
  lists = lists, holders = holders, demands = demands, values = values,
  regained = regained, moment_of = moment_of, given_back = given_back,
  hold = {}, full_at = {}, levels = {}, waits = {}, views = {}, -- see decide/states.lua
  stored = stored, value_format = value_format, expiry_of = expiry_of, write = write,
}
