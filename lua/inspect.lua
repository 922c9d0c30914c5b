-- Counts and ages of a partition: what metrics, /readyz and `gateway` commands report.
--
-- KEYS  1 prefix
-- ARGV  lanes
-- Returns  1 scheduled, retrying and timers, 2 running, 3 dead, 4 finished, 5 dispatchers alive, 6 us the oldest due job is late
--       (0: none), 7 counters (names and values), 8 ms that the longest dead job is dead (0: none is), 9 submits
--       in the outbox, then per lane 6: pending, ms that the first job of it or of any queue behind a limit has waited,
--       is it paused (0 or 1), scheduled, retrying, dead
local QUEUES_MOST = 100 -- queues of a lane that are looked at; of more, so many at random

local function late_us()
  local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
  return first[1] and math.max(0, now_us - tonumber(first[2])) or 0
end

local function dead_ms()
  local first = call('ZRANGE', P .. 'dead', 0, 0, 'WITHSCORES')
  return first[1] and math.max(0, now_ms - tonumber(first[2])) or 0
end

-- What waits behind a limit is in no order but its queue's. Of the first jobs the one that came first, by its rank, is
-- the one that has waited longest, or nearly so.
local function longest_ms(lane)
  local queues = call('ZRANDMEMBER', P .. 'flows:' .. lane, QUEUES_MOST)
  local oldest, least
  for i = 1, #queues do
    local head = call('ZRANGE', P .. 'flow:' .. lane .. ':' .. queues[i], 0, 0, 'WITHSCORES')
    local came = tonumber(head[2] or 0) % SPAN
    if head[1] and (not least or came < least) then oldest, least = head[1], came end
  end
  return math.max(waited_ms(lane), wait_of(oldest))
end

local waiting_in = count_waiting()
local out = { call('ZCARD', P .. 'due'), call('ZCARD', P .. 'leases'), call('ZCARD', P .. 'dead'), call('ZCARD', P .. 'done'),
  call('ZCOUNT', P .. 'dispatchers', '(' .. NOW, '+inf'), late_us(), call('HGETALL', P .. 'stats'), dead_ms(),
  call('ZCARD', P .. 'outbox') }
for i = 1, #ARGV do
  out[#out + 1] = waiting_in[ARGV[i]] or 0
  out[#out + 1] = longest_ms(ARGV[i])
  out[#out + 1] = lane_paused(ARGV[i]) and 1 or 0
  for _, state in ipairs({ 'scheduled', 'retrying', 'dead' }) do
    out[#out + 1] = tonumber(call('HGET', P .. 'states', state .. ':' .. ARGV[i]) or 0)
  end
end
return out
