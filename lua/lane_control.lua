-- Pauses a lane, or lets it go on. What runs goes on running; what waits is seen again at once.
--
-- KEYS  1 prefix
-- ARGV  1 lane, 2 paused (0 or 1)
-- Returns  1, or 0 if there never was such a lane
local lane, paused = ARGV[1], ARGV[2]
if not lane or (paused ~= '0' and paused ~= '1') then return redis.error_reply('ERR lane_control: lane paused') end
local known = false
local list = ','
for i = 1, #LANES do
  known = known or LANES[i] == lane
  local now = LANES[i] == lane and paused == '1' or LANES[i] ~= lane and lane_paused(LANES[i])
  if now then list = list .. LANES[i] .. ',' end
end
if not known then return 0 end
call('HSET', P .. 'conf', 'lanes_paused', list)
drop_gist()
woken = paused == '0'
commit()
return 1
