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
local ids = {}
for i = 1, #jobs do ids[i] = jobs[i][1] end
read_lines(ids)
local deadline = text(now_ms + lease_ms)
for i = 1, #jobs do
  local id, token = unpack(jobs[i])
  if is_held(id, token) then
    local flags = match(lines[id], '^%d+|%d*|%d*|%d*|(%a*)|', #token + 10)
    if not find(flags, 'w', 1, true) then -- else it has a deadline of its own since, and the answer is on its way
      leases[#leases + 1] = deadline
      leases[#leases + 1] = id
    end
    out[i] = find(flags, 'q', 1, true) and 2 or 1
  else
    out[i] = 0
  end
end
call_many('ZADD', P .. 'leases', leases)
return out
