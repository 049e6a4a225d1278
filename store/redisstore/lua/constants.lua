-- constants.lua: the numbers of the protocol and of stored values. They are local to the script,
-- and again to the function of the modules in kinds: a variable of an outer function costs more.

local VERSION = 3 -- of values
local BUCKET, QUOTA, WINDOW, CONCURRENCY = 0, 1, 2, 3
local WINDOW_SLOTS = 16
local IDS = 16777216 -- a tag is an id below it, and kind and tick above
local TICKS = 16 * IDS
local HOLD = 15 * IDS -- the tag of the record of requests that wait
local OK, REJECTED, TOO_COSTLY, UNREADABLE = 0, 1, 2, 3
