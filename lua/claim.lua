-- Gives a dispatcher up to n jobs under a lease: first promotes what is due, then takes from the lanes in order,
-- by rank in each. A claim repeated with the same nonce gets the same jobs again, so a lost reply may be resent.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 nonce, 3 n, 4 lease ms, 5 suspects allowed (0 or 1), 6 promote at most,
--       7 heartbeat ms, 8… lanes in order
-- Returns  1 us until the next due job (-1: none), 2 is there more to claim (0 or 1), 3… per job 11: id, attempt,
--       max attempts, target, lane, key, previous delay ms, created ms, ms it was ready, suspect (0 or 1), body
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

local WIDTH = 11
local out = { -1, 0 }
local got = 0
local bodies = {}
local function reply(id, v, attempt)
  local o = 2 + got * WIDTH
  out[o + 1], out[o + 2], out[o + 3], out[o + 4], out[o + 5] = id, attempt, v[2], v[3], v[4]
  out[o + 6], out[o + 7], out[o + 8] = v[5] or '', v[6] or 0, v[7]
  out[o + 9], out[o + 10] = now_ms - (v[9] or v[7]), v[8] and 1 or 0
  got = got + 1
  bodies[got] = P .. 'b:' .. id
end
local function add_bodies()
  for first = 1, got, CHUNK do
    local last = math.min(first + CHUNK - 1, got)
    local found = call('MGET', unpack(bodies, first, last))
    for i = first, last do out[2 + i * WIDTH] = found[i - first + 1] or '\n' end
  end
end

local last = call('HMGET', dk, 'nonce', 'ids')
if last[1] == nonce then
  for id in string.gmatch(last[2] or '', '[^,]+') do
    local v = call('HMGET', P .. 'j:' .. id, 'attempt', 'max_attempts', 'target', 'lane', 'key', 'previous', 'created',
      'suspect', 'updated', 'status', 'token')
    if v[10] == 'running' and v[11] == v[1] .. ':' .. nonce then reply(id, v, tonumber(v[1])) end
  end
  add_bodies()
  out[1] = 0
  return out
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
      call('HSET', jk, 'status', 'pending', 'rank', text(rank), 'updated', text(now_ms))
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
  call('HSET', jk, 'status', 'running', 'attempt', attempt, 'token', attempt .. ':' .. nonce, 'started', text(now_ms))
  leases[#leases + 1] = text(now_ms + lease_ms)
  leases[#leases + 1] = id
  ids[#ids + 1] = id
  reply(id, v, attempt)
end

local function take_suspect(lane)
  local first = call('ZPOPMIN', P .. 'suspect:' .. lane)
  if not first[1] then return end
  local before = got
  take(first[1])
  if got > before then suspects_left = 0 end
end

promote()
local budget = 4 * n + 16
for i = 1, #lanes do
  local lane = P .. 'lane:' .. lanes[i]
  local suspects_met = false
  while got < n and budget > 0 do
    local entries = call('ZPOPMIN', lane, n - got)
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
  if got >= n or budget <= 0 then break end
end

call_many('ZADD', P .. 'leases', leases)
add_bodies()
if got > 0 then call('HSET', dk, 'nonce', nonce, 'ids', table.concat(ids, ',')) end
call('HSET', dk, 'seen', text(now_ms))
call('PEXPIRE', dk, heartbeat_ms)
call('ZADD', P .. 'dispatchers', text(now_ms + heartbeat_ms), dispatcher)

local next_due = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
if next_due[1] then out[1] = math.max(0, tonumber(next_due[2]) - now_us) end
if got < n and budget > 0 then
  if out[1] ~= 0 then call('ZADD', P .. 'idle', text(now_ms), dispatcher) end
else
  call('ZREM', P .. 'idle', dispatcher)
  for i = 1, #lanes do
    if call('EXISTS', P .. 'lane:' .. lanes[i]) == 1 then
      out[2] = 1
      wake_one()
      break
    end
  end
end
flush_counters()
return out
