-- Keeps finished jobs within their age and count and dead ones within their age (their count is kept as they die), in
-- bounded batches, and counts dispatchers that went silent.
--
-- KEYS  1 prefix
-- ARGV  1 finished ms, 2 finished at most, 3 dead ms, 4 jobs to remove at most
-- Returns  1 jobs removed, 2 is there more to remove (0 or 1), 3 dispatchers lost
for i = 1, 4 do
  if not whole(ARGV[i], 0) then return redis.error_reply('ERR upkeep: value ' .. i .. ' is no whole number') end
end
local budget = tonumber(ARGV[4])

local removed, more = 0, 0
local function trim(index, age_ms, most)
  local over = call('ZCARD', index) - most
  local old = call('ZCOUNT', index, '-inf', text(now_ms - age_ms))
  local excess = math.max(over, old)
  if excess <= 0 then return end
  if excess > budget then more = 1 end
  local ids = call('ZPOPMIN', index, math.min(excess, budget))
  for i = 1, #ids, 2 do forget(ids[i]) end
  removed = removed + #ids / 2
  budget = budget - #ids / 2
end
trim(P .. 'done', tonumber(ARGV[1]), tonumber(ARGV[2]))
trim(P .. 'dead', tonumber(ARGV[3]), math.huge)

local lost = call('ZRANGE', P .. 'dispatchers', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 100)
if #lost > 0 then
  call('ZREM', P .. 'dispatchers', unpack(lost))
  call('ZREM', P .. 'idle', unpack(lost))
  call('HINCRBY', P .. 'stats', 'dispatcher_deaths', #lost)
end
commit()
return { removed, more, #lost }
