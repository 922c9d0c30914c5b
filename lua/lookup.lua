-- Reads records, each as it stands at one instant: whole, or in short without payload and result.
--
-- KEYS  1 prefix
-- ARGV  1 whole or short, then ids
-- Returns  per job 7: fields and values of its HASH (empty: no such job), body, result, log, when it is due (us) or
--       ended (ms), callback's status,
--       what a pending job waits for (paused, breaker, concurrency, quota, rate, key; '': its turn)
local short = ARGV[1] == 'short'
if not short and ARGV[1] ~= 'whole' then return redis.error_reply('ERR lookup: whole|short id…') end

local function body_of(id)
  local key = P .. 'b:' .. id
  if not short then return call('GET', key) or '' end
  local head = call('GETRANGE', key, 0, 4095)
  local at = string.find(head, '\n', 1, true)
  if not at then
    head = call('GET', key) or '\n'
    at = string.find(head, '\n', 1, true)
  end
  return string.sub(head, 1, at)
end

local function waits_on(fields)
  if fields.status ~= 'pending' then return '' end
  local t = target_node(fields.target)
  return t and key_waits_on(t, key_node(t, fields.key or '')) or ''
end

local PLACES = { scheduled = 'due', retrying = 'due', dead = 'dead', succeeded = 'done', cancelled = 'done' }
local out = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local flat = call('HGETALL', P .. 'j:' .. id)
  local fields = {}
  for at = 1, #flat, 2 do fields[flat[at]] = flat[at + 1] end
  local callback = fields.callback_id
  out[#out + 1] = flat
  out[#out + 1] = body_of(id)
  out[#out + 1] = not short and call('GET', P .. 'r:' .. id) or ''
  out[#out + 1] = call('GET', P .. 'e:' .. id) or ''
  out[#out + 1] = PLACES[fields.status] and call('ZSCORE', P .. PLACES[fields.status], id) or ''
  out[#out + 1] = callback and call('HGET', P .. 'j:' .. callback, 'status') or ''
  out[#out + 1] = waits_on(fields)
end
return out
