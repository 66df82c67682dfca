"""What Valkey does in one step: all that one owner has is in one hash, so that a cluster can hold it anywhere.

The hash has, of each rate, what is used of the last minute (`r`, `t`: units, draining evenly) and when that was right
(`r@`, `t@`: microseconds); and of each process (`p:…`) when its record ends, how many places it holds and how many
units of each rate it has in hand. What is in hand counts as used and does not drain: never more is out than the limit.
"""

from typing import Final

KEY: Final = "poolhouse:limits:{%s}"
PROCESSES: Final = "poolhouse:limits:{processes}"

# ARGV: now or 0 for Valkey's own clock; process; lease; parallel limit, places held, wanted, wanted ahead; for requests
# and for tokens: limit, in hand, given back, spent unasked, wanted (one by one), wanted ahead; channel; message.
EXCHANGE: Final = """
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local mine = 'p:' .. ARGV[2]
local known = redis.call('HGETALL', KEYS[1])
local others, before, state = {0, 0, 0}, {0, 0, 0}, {}
for i = 1, #known, 2 do
  local name, value = known[i], known[i + 1]
  if string.sub(name, 1, 2) ~= 'p:' then
    state[name] = tonumber(value)
  else
    local ends, places, requests, tokens = string.match(value, '(%d+) (%d+) (%d+) (%d+)')
    if tonumber(ends) <= now then
      redis.call('HDEL', KEYS[1], name)
    else
      local sum = name == mine and before or others
      sum[1], sum[2], sum[3] = sum[1] + places, sum[2] + requests, sum[3] + tokens
    end
  end
end
local is_called_in = false

local function places()
  local limit, held = tonumber(ARGV[4]), tonumber(ARGV[5])
  if limit == 0 then return 0, 0, 0 end
  local wanted, ahead = tonumber(ARGV[6]), tonumber(ARGV[7])
  local free = limit - others[1] - held
  local granted = math.max(0, math.min(wanted, free))
  free = free - granted
  if granted < wanted then
    is_called_in = is_called_in or others[1] > 0
  else
    ahead = math.max(0, math.min(ahead, math.floor(free / 8)))
    granted, free = granted + ahead, free - ahead
  end
  return granted, free, held + granted
end

local function rate(name, first, number)
  local size, hand = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  if size == 0 then return 0, 0, 0 end
  local used, at = state[name] or 0, state[name .. '@'] or now
  used = used - math.max(0, now - at) * math.max(size, used) / 60000000
  used = math.max(used, others[number] + before[number])
  used = used - tonumber(ARGV[first + 2]) + tonumber(ARGV[first + 3])
  used = math.max(used, others[number] + hand)
  local free, granted, is_short = size - used, 0, false
  for wanted in string.gmatch(ARGV[first + 4], '%d+') do
    local units = tonumber(wanted)
    if units <= free + 0.000001 then
      granted, free = granted + units, free - units
    else
      is_short = true
    end
  end
  local ahead = 0
  if is_short then
    is_called_in = is_called_in or others[number] > 0
  else
    ahead = math.max(0, math.min(tonumber(ARGV[first + 5]), math.floor(free / 8)))
  end
  used = string.format('%.6f', used + granted + ahead)
  redis.call('HSET', KEYS[1], name, used, name .. '@', string.format('%.0f', math.max(now, at)))
  return granted + ahead, free - ahead, hand + ahead
end

local place_grant, place_rest, place_held = places()
local request_grant, request_rest, request_hand = rate('r', 8, 2)
local token_grant, token_rest, token_hand = rate('t', 14, 3)
local lease = tonumber(ARGV[3])
if place_held + request_hand + token_hand > 0 then
  local record = string.format('%.0f %.0f %.0f %.0f', now + lease, place_held, request_hand, token_hand)
  redis.call('HSET', KEYS[1], mine, record)
else
  redis.call('HDEL', KEYS[1], mine)
end
if is_called_in and now - (state['c'] or 0) > 20000 then
  redis.call('HSET', KEYS[1], 'c', string.format('%.0f', now))
  redis.call('PUBLISH', ARGV[20], ARGV[21])
end
redis.call('PEXPIRE', KEYS[1], 120000 + math.floor(lease / 1000))
return {
  place_grant, place_rest, others[1],
  request_grant, string.format('%.6f', request_rest), others[2],
  token_grant, string.format('%.6f', token_rest), others[3],
}
"""

# ARGV: process; seconds after which a silent one is gone. Answers how many there are.
ALIVE: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZADD', KEYS[1], string.format('%.6f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, string.format('%.6f', now - ARGV[2]))
redis.call('EXPIRE', KEYS[1], 600)
return redis.call('ZCARD', KEYS[1])
"""
