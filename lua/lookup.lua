-- Reads records, each as it stands at one instant: whole, or in short without payload and result.
--
-- KEYS  1 prefix
-- ARGV  1 whole or short, then ids
-- Returns  per job 7: fields and values of its record (empty: no such job), body without its facts, result, log, when it is due (us) or
--       ended (ms), callback's status,
--       what a pending job waits for (paused, breaker, concurrency, quota, rate, key, lane, suspect; '': its turn)
local short = ARGV[1] == 'short'
if not short and ARGV[1] ~= 'whole' then return redis.error_reply('ERR lookup: whole|short id…') end

local function body_of(id)
  local body = short and head_of(id, 2) or call('GET', P .. 'b:' .. id) or ''
  return sub(body, (find(body, '\n', 1, true) or 0) + 1)
end

local SHOWN = { 'status', 'token', 'attempt', 'started', 'previous', 'updated', 'target', 'lane', 'expires', 'callback',
  'max', 'rank', 'created', 'run_at', 'key' }
-- What is known of a job, as names and values in turn, and its callback job.
local function fields_of(id, job)
  local rare = call('HGETALL', P .. 'j:' .. id)
  local callback
  for at = 1, #rare, 2 do
    if rare[at] == 'callback_id' then callback = rare[at + 1] end
  end
  for i = 1, #SHOWN do
    local value = job[SHOWN[i]]
    if value ~= '' then
      rare[#rare + 1] = SHOWN[i]
      rare[#rare + 1] = tostring(value)
    end
  end
  return rare, callback
end

local function waits_on(job)
  if job.status ~= 'pending' then return '' end
  local t = target_node(job.target)
  local reason = t and key_waits_on(t, key_node(t, job.key)) or ''
  if reason ~= '' then return reason end
  return lane_paused(job.lane) and 'lane' or has_flag(job, 's') and 'suspect' or ''
end

local PLACES = { scheduled = 'due', retrying = 'due', dead = 'dead', succeeded = 'done', cancelled = 'done' }
local out = {}
local function look_at(id)
  local job = load(id)
  if not job then return {}, '', '', '', '', '', '' end
  local fields, callback = fields_of(id, job)
  local place = PLACES[job.status]
  return fields, body_of(id), not short and call('GET', P .. 'r:' .. id) or '', call('GET', P .. 'e:' .. id) or '',
    place and call('ZSCORE', P .. place, id) or '', callback and status_of(callback) or '', waits_on(job)
end
for i = 2, #ARGV do
  for _, value in ipairs({ look_at(ARGV[i]) }) do out[#out + 1] = value end
end
return out
