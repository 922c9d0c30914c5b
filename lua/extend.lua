-- Renews the leases of jobs that a dispatcher still runs, and its own heartbeat (with no jobs: the heartbeat alone).
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 lease ms, 3 heartbeat ms, 4 a batch, per job 2: id, token
-- Returns  per job: 0 lost, 1 renewed, 2 renewed and its cancellation is asked for
local lease_ms, heartbeat_ms = whole(ARGV[2], 1), whole(ARGV[3], 1)
local jobs = batch(4, 2)
if not (lease_ms and heartbeat_ms and jobs) then
  return redis.error_reply('ERR extend: dispatcher lease_ms heartbeat_ms batch')
end
for i = 1, #jobs do
  if type(jobs[i][1]) ~= 'string' or type(jobs[i][2]) ~= 'string' then
    return redis.error_reply('ERR extend: id or token of job ' .. i .. ' is no text')
  end
end
local dk = P .. 'dispatcher:' .. ARGV[1]
call('HSET', dk, 'seen', NOW)
call('PEXPIRE', dk, heartbeat_ms)
call('ZADD', P .. 'dispatchers', now_ms + heartbeat_ms, ARGV[1])

local out = {}
local leases = {}
for i = 1, #jobs do
  local id, token = unpack(jobs[i])
  local v = call('HMGET', P .. 'j:' .. id, 'status', 'token', 'cancel')
  local held = v[1] == 'running' and v[2] == token
  if held then
    leases[#leases + 1] = now_ms + lease_ms
    leases[#leases + 1] = id
  end
  out[#out + 1] = held and (v[3] and 2 or 1) or 0
end
call_many('ZADD', P .. 'leases', leases)
return out
