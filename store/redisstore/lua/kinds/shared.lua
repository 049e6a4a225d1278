-- shared.lua: what the functions define_takes and define_kinds use of the script. The modules in
-- this folder are their bodies; the parameter shared has what they share with the script.

local call, pack, unpack_from = redis.call, struct.pack, struct.unpack
local rep, format, sub = string.rep, string.format, string.sub
local now, time_is_passed_in = shared.now, shared.time_is_passed_in
local lists, holders, demands = shared.lists, shared.holders, shared.demands
local stored, values, expiry_of, write = shared.stored, shared.values, shared.expiry_of, shared.write

