-- The control: a token bucket as the documents have it, one hash and one call
-- for each decision. It is here to be measured against, not to be used: it
-- loses the fraction of a token with every success.
local capacity, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if capacity <= 0 or window <= 0 or permits <= 0 then
  return redis.error_reply('capacity, window and permits must be positive')
end
local time = redis.call('TIME')
local now = (tonumber(time[1]) * 1000000 + tonumber(time[2])) * 1000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'last_refill_nanos')
local tokens, last = tonumber(bucket[1]), tonumber(bucket[2])
if tokens == nil or last == nil then
  tokens, last = capacity, now
end
local elapsed = math.max(0, now - last)
local added = 0
if elapsed > 0 then
  added = math.floor((elapsed * capacity) / window)
end
tokens = math.min(capacity, tokens + added)
local missing, full = capacity - tokens, 0
if missing > 0 then
  full = math.ceil((missing * window) / capacity)
end
local reset = math.floor((now + full) / 1000000)
if tokens >= permits then
  tokens = tokens - permits
  redis.call('HMSET', KEYS[1], 'tokens', tokens, 'last_refill_nanos', now)
  redis.call('EXPIRE', KEYS[1], math.min(math.ceil(window / 1000000000 * 1.1), 86400))
  return { 1, tokens, 0, reset }
end
return { 0, tokens, math.ceil(((permits - tokens) * window) / capacity), reset }
