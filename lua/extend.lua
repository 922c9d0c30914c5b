-- Renews the leases of jobs that a dispatcher still runs, and its own heartbeat (with no jobs: the heartbeat alone).
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 lease ms, 3 heartbeat ms, then per job 2: id, token
-- Returns  per job: 0 lost, 1 renewed, 2 renewed and its cancellation is asked for
local lease_ms, heartbeat_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
if not (lease_ms and heartbeat_ms) or #ARGV % 2 ~= 1 then
  return redis.error_reply('ERR extend: dispatcher lease_ms heartbeat_ms [id token]…')
end
local dk = P .. 'dispatcher:' .. ARGV[1]
call('HSET', dk, 'seen', text(now_ms))
call('PEXPIRE', dk, heartbeat_ms)
call('ZADD', P .. 'dispatchers', text(now_ms + heartbeat_ms), ARGV[1])

local out = {}
local leases = {}
for i = 4, #ARGV, 2 do
  local v = call('HMGET', P .. 'j:' .. ARGV[i], 'status', 'token', 'cancel')
  local held = v[1] == 'running' and v[2] == ARGV[i + 1]
  if held then
    leases[#leases + 1] = text(now_ms + lease_ms)
    leases[#leases + 1] = ARGV[i]
  end
  out[#out + 1] = held and (v[3] and 2 or 1) or 0
end
call_many('ZADD', P .. 'leases', leases)
return out
