-- Takes jobs in: each gets its record, body, place (lane or due) and idempotency key, or is told which earlier
-- job it repeats. A repeat of the same job id is the first one again, so a lost reply may be resent.
--
-- KEYS  1 prefix
-- ARGV  per job 13: id, lane, target, key, priority (-100..100), delay ms, expires ms (0: never), max attempts,
--       callback events (of s d c, or ''), idempotency hash (or ''), fingerprint, window ms, body
-- Returns  per job 3: verdict (accepted, duplicate, conflict), job id, status (gone: the record is no more)
local WIDTH = 13
if #ARGV % WIDTH ~= 0 then return redis.error_reply('ERR submit takes 13 values a job') end
local n = #ARGV / WIDTH
for i = 0, n - 1 do
  for _, at in ipairs({ 5, 6, 7, 8, 12 }) do
    if not tonumber(ARGV[i * WIDTH + at]) then return redis.error_reply('ERR submit: value ' .. at .. ' is no number') end
  end
end

-- An earlier job with this idempotency key, as its reply; nil if there is none.
local function repeated(hash, fingerprint)
  local known = hash ~= '' and call('GET', P .. 'idem:' .. hash)
  if not known then return nil end
  local id, first = string.match(known, '^(%S+) (.*)$')
  local status = call('HGET', P .. 'j:' .. id, 'status') or 'gone'
  return { first == fingerprint and 'duplicate' or 'conflict', id, status }
end

local out = {}
local lanes = {}
local due = {}
local seq
for i = 0, n - 1 do
  local o = i * WIDTH
  local id, lane, target, key = ARGV[o + 1], ARGV[o + 2], ARGV[o + 3], ARGV[o + 4]
  local jk = P .. 'j:' .. id
  local status = call('HGET', jk, 'status')
  local reply = status and { 'accepted', id, status } or repeated(ARGV[o + 10], ARGV[o + 11])
  if not reply then
    if not seq then seq = call('INCRBY', P .. 'seq', n) - n end
    local rank = (100 - tonumber(ARGV[o + 5])) * SPAN + seq + i + 1
    local delay = tonumber(ARGV[o + 6])
    local expires = tonumber(ARGV[o + 7])
    status = delay > 0 and 'scheduled' or 'pending'
    local fields = { 'status', status, 'lane', lane, 'target', target, 'rank', text(rank), 'attempt', 0,
      'max_attempts', ARGV[o + 8], 'created', text(now_ms) }
    if key ~= '' then fields[#fields + 1] = 'key'; fields[#fields + 1] = key end
    if delay > 0 then fields[#fields + 1] = 'run_at'; fields[#fields + 1] = text(now_ms + delay) end
    if expires > 0 then fields[#fields + 1] = 'expires'; fields[#fields + 1] = text(now_ms + expires) end
    if ARGV[o + 9] ~= '' then fields[#fields + 1] = 'callback'; fields[#fields + 1] = ARGV[o + 9] end
    call('HSET', jk, unpack(fields))
    call('SET', P .. 'b:' .. id, ARGV[o + 13])
    if ARGV[o + 10] ~= '' then
      call('SET', P .. 'idem:' .. ARGV[o + 10], id .. ' ' .. ARGV[o + 11], 'PX', ARGV[o + 12])
    end
    local list
    if delay > 0 then
      list = due
      list[#list + 1] = text(now_us + delay * 1000)
    else
      list = lanes[lane]
      if not list then list = {}; lanes[lane] = list end
      list[#list + 1] = text(rank)
    end
    list[#list + 1] = id
    bump('submitted', lane, target)
    reply = { 'accepted', id, status }
  end
  out[i * 3 + 1], out[i * 3 + 2], out[i * 3 + 3] = reply[1], reply[2], reply[3]
end
for lane, list in pairs(lanes) do call_many('ZADD', P .. 'lane:' .. lane, list) end
call_many('ZADD', P .. 'due', due)
flush_counters()
if seq then wake_one() end
return out
