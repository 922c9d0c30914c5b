-- Gives a dispatcher up to n jobs under a lease: first promotes what is due, then takes from the lanes in order,
-- by rank in each. A claim repeated with the same nonce gets the same jobs again, so a lost reply may be resent.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 nonce, 3 n, 4 lease ms, 5 suspects allowed (0 or 1), 6 promote at most,
--       7 heartbeat ms, 8… lanes in order
-- Returns  MessagePack: 1 us until the next due job (-1: none), 2 is there more to claim, 3 per job 11: id, attempt,
--       max attempts, target, lane, key, previous delay ms, created ms, ms it was ready, suspect, body
local dispatcher, nonce = ARGV[1], ARGV[2]
local n, lease_ms, suspects_left = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local promote_most, heartbeat_ms = tonumber(ARGV[6]), tonumber(ARGV[7])
if not (n and lease_ms and suspects_left and promote_most and heartbeat_ms) or #ARGV < 8 then
  return redis.error_reply('ERR claim: dispatcher nonce n lease_ms suspects promote_most heartbeat_ms lanes')
end
local dk = P .. 'dispatcher:' .. dispatcher

local lanes, known = {}, {}
local function add_lane(lane)
  if not known[lane] then known[lane] = true; lanes[#lanes + 1] = lane end
end
for i = 8, #ARGV do add_lane(ARGV[i]) end
-- lanes that are no longer configured still drain, last
for lane in string.gmatch(call('HGET', P .. 'conf', 'lanes') or '', '[^,]+') do add_lane(lane) end

local taken = {}
local bodies = {}
local function reply(id, v, attempt)
  taken[#taken + 1] = { id, attempt, tonumber(v[2]), v[3], v[4], v[5] or '', tonumber(v[6] or 0), tonumber(v[7]),
    now_ms - (v[9] or v[7]), v[8] and true or false, '' }
  bodies[#bodies + 1] = P .. 'b:' .. id
end
local function answer(wake_us, more)
  for first = 1, #taken, CHUNK do
    local last = math.min(first + CHUNK - 1, #taken)
    local found = call('MGET', unpack(bodies, first, last))
    for i = first, last do taken[i][11] = found[i - first + 1] or '\n' end
  end
  return cmsgpack.pack({ wake_us, more, taken })
end

local last = call('HMGET', dk, 'nonce', 'ids')
if last[1] == nonce then
  for id in string.gmatch(last[2] or '', '[^,]+') do
    local v = call('HMGET', P .. 'j:' .. id, 'attempt', 'max_attempts', 'target', 'lane', 'key', 'previous', 'created',
      'suspect', 'updated', 'status', 'token')
    if v[10] == 'running' and v[11] == v[1] .. ':' .. nonce then reply(id, v, tonumber(v[1])) end
  end
  return answer(0, false)
end

-- What is due goes to its lane at the back of its priority.
local function promote()
  local ids = call('ZRANGE', P .. 'due', '-inf', text(now_us), 'BYSCORE', 'LIMIT', 0, promote_most)
  if #ids == 0 then return end
  call_many('ZREM', P .. 'due', ids)
  local seq = call('INCRBY', P .. 'seq', #ids) - #ids
  for i = 1, #ids do
    local jk = P .. 'j:' .. ids[i]
    local v = call('HMGET', jk, 'lane', 'rank', 'suspect')
    if v[1] then
      local rank = class_of(v[2]) * SPAN + seq + i
      call('HSET', jk, 'status', 'pending', 'rank', text(rank), 'updated', NOW)
      make_ready(ids[i], v[1], text(rank), v[3])
    end
  end
end

local leases = {}
local ids = {}
local function take(id)
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'attempt', 'max_attempts', 'target', 'lane', 'key', 'previous', 'created', 'suspect',
    'updated', 'expires', 'callback')
  if not v[1] then return end
  if v[10] and tonumber(v[10]) <= now_ms then
    finish(id, { lane = v[4], target = v[3], attempt = v[1], callback = v[11] }, 'dead', 'expired', '',
      '{"type":"expired","message":"not started before it expired"}')
    return
  end
  local attempt = tonumber(v[1]) + 1
  call('HSET', jk, 'status', 'running', 'attempt', attempt, 'token', attempt .. ':' .. nonce, 'started', NOW)
  leases[#leases + 1] = now_ms + lease_ms
  leases[#leases + 1] = id
  ids[#ids + 1] = id
  reply(id, v, attempt)
end

local function take_suspect(lane)
  local first = call('ZPOPMIN', P .. 'suspect:' .. lane)
  if not first[1] then return end
  local before = #taken
  take(first[1])
  if #taken > before then suspects_left = 0 end
end

promote()
local budget = 4 * n + 16
for i = 1, #lanes do
  local lane = P .. 'lane:' .. lanes[i]
  local suspects_met = false
  while #taken < n and budget > 0 do
    local entries = call('ZPOPMIN', lane, n - #taken)
    if #entries == 0 then break end
    for e = 1, #entries, 2 do
      budget = budget - 1
      if entries[e] == SUSPECTS then
        suspects_met = true
        if suspects_left > 0 then take_suspect(lanes[i]) end
      else
        take(entries[e])
      end
    end
  end
  if suspects_met then place_suspects(lanes[i]) end
  if #taken >= n or budget <= 0 then break end
end

call_many('ZADD', P .. 'leases', leases)
if #ids > 0 then call('HSET', dk, 'nonce', nonce, 'ids', table.concat(ids, ',')) end
call('HSET', dk, 'seen', NOW)
call('PEXPIRE', dk, heartbeat_ms)
call('ZADD', P .. 'dispatchers', now_ms + heartbeat_ms, dispatcher)

local next_due = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
local wake_us = next_due[1] and math.max(0, tonumber(next_due[2]) - now_us) or -1
local more = false
if #taken < n and budget > 0 then
  if wake_us ~= 0 then call('ZADD', P .. 'idle', now_ms, dispatcher) end
else
  call('ZREM', P .. 'idle', dispatcher)
  for i = 1, #lanes do
    if call('EXISTS', P .. 'lane:' .. lanes[i]) == 1 then
      more = true
      wake_one()
      break
    end
  end
end
flush_counters()
return answer(wake_us, more)
