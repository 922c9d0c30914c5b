-- Prepended to every script: the clock, the keyspace, and the few steps that several transitions share.
--
-- KEYS[1] is the partition's prefix, `gw:{namespace:partition}:`; every key is that prefix and one of
--   j:<id>        HASH    the job: status lane target rank attempt max_attempts created, and where they apply
--                         key token started finished updated run_at expires previous stalls suspect cancel
--                         callback callback_id reason replay progress (times and delays in ms)
--   b:<id>        STRING  options as one JSON line, then the payload's bytes
--   r:<id>        STRING  result, JSON        e:<id> STRING the attempt log, a JSON object a line
--   lane:<lane>   ZSET    pending ids by rank, and the reference `!` at the rank of the lane's first suspect
--   suspect:<lane> ZSET   pending suspects by rank: a dispatcher runs at most one of them at a time
--   due           ZSET    scheduled and retrying ids by due time in us
--   leases        ZSET    running ids by lease deadline in ms
--   dead, done    ZSET    finished ids by time of finish in ms
--   idem:<hash>   STRING  job id, a space, fingerprint
--   seq           STRING  rank sequence       stats, conf HASH counters; schema and lanes
--   dispatcher:<id> HASH  last claim: nonce, ids
--   dispatchers   ZSET    dispatchers by when their heartbeat runs out, in ms
--   idle          ZSET    dispatchers whose last claim came back short, oldest first
--
-- A token is `attempt:nonce`. It stays on the job after its settle, so that a repeated settle is known as such;
-- whatever takes a job away from its holder clears it.

local P = KEYS[1]
local call = redis.call
local floor = math.floor
local SCHEMA = 1
local SPAN = 35184372088832 -- 2^45: rank = (100 - priority) * SPAN + seq
local CHUNK = 500           -- unpack() fails near 8,000 values
local LOG_BYTES = 16384
local SUSPECTS = '!'

local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = floor(now_us / 1000)

if tonumber(call('HGET', P .. 'conf', 'min_writer') or 0) > SCHEMA then
  return redis.error_reply('GWSCHEMA the data needs a newer version of event-gateway than this one')
end

-- A number as decimal text: tostring() would give 3.51843733234e+15. A score may be passed as a number.
local function text(number)
  return string.format('%.0f', number)
end
local NOW = text(now_ms)

-- call(command, key, ...) with the items of a flat list, in chunks that unpack() can take.
local function call_many(command, key, items)
  for first = 1, #items, CHUNK do
    call(command, key, unpack(items, first, math.min(first + CHUNK - 1, #items)))
  end
end

-- The items of a batch: ARGV[at] is a MessagePack array of arrays of `width` values. One argument instead of
-- thousands spares both ends most of a call's cost. Nil if it is anything else.
local function batch(at, width)
  local ok, items = pcall(cmsgpack.unpack, ARGV[at] or '')
  if not ok or type(items) ~= 'table' then return nil end
  for i = 1, #items do
    if type(items[i]) ~= 'table' or #items[i] ~= width then return nil end
  end
  return items
end

local bumps = {}
local function bump(counter, lane, target, n)
  local field = counter .. ':' .. lane .. ':' .. target
  bumps[field] = (bumps[field] or 0) + (n or 1)
end

-- Writes the counters; every script that bumps calls it once at its end.
local function flush_counters()
  for field, n in pairs(bumps) do
    call('HINCRBY', P .. 'stats', field, n)
  end
end

-- Adds a line to a job's attempt log; the oldest lines go when it grows over LOG_BYTES.
local function log(id, line)
  local key = P .. 'e:' .. id
  if call('APPEND', key, line .. '\n') > LOG_BYTES then
    local all = call('GET', key)
    local cut = string.find(all, '\n', #all - LOG_BYTES * 3 / 4, true) or #all
    call('SET', key, string.sub(all, cut + 1))
  end
end

local function log_line(kind, attempt, rest)
  return '{"at":' .. NOW .. ',"type":"' .. kind .. '","attempt":' .. (attempt or 0) .. (rest or '') .. '}'
end

-- Wakes one dispatcher that has nothing to do; a hint, so one that is gone is passed over and none is no fault.
local function wake_one()
  for _ = 1, 4 do
    local idle = call('ZPOPMIN', P .. 'idle')
    if not idle[1] then return end
    if call('SPUBLISH', P .. 'wake:' .. idle[1], '') > 0 then return end
  end
end

-- Puts a pending job where a claim will find it, at its rank.
local function make_ready(id, lane, rank, suspect)
  if suspect then
    call('ZADD', P .. 'suspect:' .. lane, rank, id)
    call('ZADD', P .. 'lane:' .. lane, 'LT', rank, SUSPECTS)
  else
    call('ZADD', P .. 'lane:' .. lane, rank, id)
  end
end

-- The reference to a lane's suspects stands at the first one's rank, or is gone.
local function place_suspects(lane)
  local first = call('ZRANGE', P .. 'suspect:' .. lane, 0, 0, 'WITHSCORES')
  if first[1] then
    call('ZADD', P .. 'lane:' .. lane, first[2], SUSPECTS)
  else
    call('ZREM', P .. 'lane:' .. lane, SUSPECTS)
  end
end

-- Takes a pending job out of where make_ready put it.
local function unmake_ready(id, lane)
  if call('ZREM', P .. 'lane:' .. lane, id) == 0 and call('ZREM', P .. 'suspect:' .. lane, id) == 1 then
    place_suspects(lane)
  end
end

local function new_seq()
  return call('INCR', P .. 'seq')
end

local function class_of(rank)
  return floor(tonumber(rank) / SPAN)
end

-- A UUIDv7 for a job that this script makes itself: its noise is the SHA-1 of its cause, its last byte the
-- partition (that of the cause, since the new job lies beside it).
local function derived_id(cause_id, cause)
  local noise = redis.sha1hex(cause_id .. ' ' .. cause)
  local ms = string.format('%04x%08x', floor(now_ms / 4294967296), now_ms % 4294967296)
  local variant = string.sub('89ab', tonumber(string.sub(noise, 1, 1), 16) % 4 + 1, tonumber(string.sub(noise, 1, 1), 16) % 4 + 1)
  return string.sub(ms, 1, 8) .. '-' .. string.sub(ms, 9, 12) .. '-7' .. string.sub(noise, 2, 4) .. '-' .. variant
    .. string.sub(noise, 5, 7) .. '-' .. string.sub(noise, 8, 17) .. string.sub(cause_id, 35, 36)
end

local EVENTS = { succeeded = 's', dead = 'd', cancelled = 'c' }
local CALLBACK_TARGET = 'gateway.callback'
local CALLBACK_ATTEMPTS = 8

-- Makes the callback job of a job that has just ended, if its client asked to hear of such an end. `error` is
-- JSON text or ''. The new job carries the first one's options, so that nothing of it need still exist.
local function notify(id, job, status, reason, result, error)
  if not job.callback or not string.find(job.callback, EVENTS[status], 1, true) then return end
  local new = derived_id(id, status .. ' ' .. (job.token or '') .. ' ' .. text(now_us))
  local body = call('GET', P .. 'b:' .. id) or '\n'
  local options = string.sub(body, 1, string.find(body, '\n', 1, true) - 1)
  local cause = '{"cause":{"job_id":"' .. id .. '","target":"' .. job.target .. '","status":"' .. status
    .. '","attempts":' .. (job.attempt or 0) .. ',"at_ms":' .. NOW
    .. ',"reason":"' .. reason .. '"' .. (error ~= '' and (',"error":' .. error) or '') .. '}'
    .. (options ~= '' and (',"parent":' .. options) or '') .. '}'
  local rank = 100 * SPAN + new_seq()
  call('HSET', P .. 'j:' .. new, 'status', 'pending', 'lane', job.lane, 'target', CALLBACK_TARGET, 'rank', text(rank),
    'attempt', 0, 'max_attempts', CALLBACK_ATTEMPTS, 'created', NOW)
  call('SET', P .. 'b:' .. new, cause .. '\n' .. result)
  make_ready(new, job.lane, rank, false)
  call('HSET', P .. 'j:' .. id, 'callback_id', new)
  bump('submitted', job.lane, CALLBACK_TARGET)
end

-- The end of a job: its record, its index, its counter and its callback. `job` has lane, target, attempt, token
-- and callback. Its leases, lane or due entry is the caller's to remove.
local function finish(id, job, status, reason, result, error)
  local jk = P .. 'j:' .. id
  if status == 'dead' then
    call('HSET', jk, 'status', status, 'finished', NOW, 'reason', reason)
    call('ZADD', P .. 'dead', now_ms, id)
    log(id, log_line('dead', job.attempt, ',"reason":"' .. reason .. '"' .. (job.started and (',"started":' .. job.started) or '')
      .. (error ~= '' and (',"error":' .. error) or '')))
  else
    call('HSET', jk, 'status', status, 'finished', NOW)
    call('ZADD', P .. 'done', now_ms, id)
    if status == 'cancelled' then log(id, log_line('cancelled', job.attempt)) end
  end
  bump(status, job.lane, job.target)
  notify(id, job, status, reason, result, error)
end
