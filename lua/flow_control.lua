-- Gives a target flows, or changes its limits, pause or breaker; every change is seen by waiting jobs at once.
--
-- KEYS  1 prefix
-- ARGV  1 target, then fields and values: concurrency, interval (us a token), burst, quota, window (us),
--       key_concurrency, key_interval, key_burst, key_quota, key_window, ordered, paused (2: gone), open_until (us),
--       breaker, breaker_ratio (of 100), breaker_window, breaker_pause, breaker_cap (us); 0: no limit
-- Returns  1 if the target has flows for the first time, 0 if it had them
local target = ARGV[1]
if not target or #ARGV % 2 ~= 1 then return redis.error_reply('ERR flow_control: target [field value]…') end
local known = {}
for i = 1, #TARGET_LIMITS do known[TARGET_LIMITS[i]] = true end
for i = 1, 4 do known[BREAKER[i]] = true end
for i = 2, #ARGV, 2 do
  if not known[ARGV[i]] or not whole(ARGV[i + 1], 0) then
    return redis.error_reply('ERR flow_control: no such limit, or one that is no whole number from 0: ' .. ARGV[i])
  end
end

local FLOWS_BYTES = 1024 -- of names that every call reads; where there are more, each target is asked
local key = P .. 'ft:' .. target
local new = call('HSETNX', key, 'running', 0)
local keys_change = false
for i = 2, #ARGV, 2 do
  local own = string.sub(ARGV[i], 1, 8) ~= 'breaker_'
  call('HSET', own and key or P .. 'fb:' .. target, ARGV[i], ARGV[i + 1])
  if ARGV[i + 1] == '0' then
    if ARGV[i] == 'open_until' then call('HDEL', P .. 'fb:' .. target, 'trips', 'probe', 'opened', 'good', 'bad', 'window_at') end
  end
  if ARGV[i] == 'paused' and ARGV[i + 1] ~= '2' then call('HDEL', P .. 'fb:' .. target, 'gone') end
  keys_change = keys_change or ARGV[i] == 'key_concurrency' or ARGV[i] == 'ordered'
end
if may_flow and not may_flow[target] then
  local flows = conf[8] .. target .. ','
  call('HSET', P .. 'conf', 'flows', #flows <= FLOWS_BYTES and flows or MANY)
  drop_gist()
  may_flow[target] = true
end
local t = target_node(target)
-- From when its keys have limits they have records.
local keyed = t.ordered == 1 or t.key_concurrency > 0 or t.key_interval > 0 or t.key_quota > 0
local counted = new
if new == 1 and not keyed or t.bare == 1 and keyed then
  if new == 0 then keys_change, counted = true, 1 end
  t.bare = 2 - new
  call('HSET', key, 'bare', t.bare)
end
-- the timer speaks of the old rate: target_blocked() arms the right one
if t.timer > 0 then
  call('ZREM', P .. 'due', '~' .. target)
  t.timer = 0
end
touch_target(t)
-- What runs of a target is found by a walk of the leases. Where its keys' concurrency changes, every key that this
-- blocks has a running job; a changed rate of a key is seen when its timer next looks, within 10 s. A target that has
-- flows from now on counts what runs of it already.
local function look_at(id)
  local job = load(id)
  if not job or job.target ~= target then return end
  t.running = t.running + new
  if job.key == '' or t.bare == 1 then return end
  local k = key_node(t, job.key)
  k.running = k.running + counted
  touch_key(k)
end
-- Jobs of it that wait already go into its flows as claims meet them, since they may be many; suspects at once.
local function note_earlier(lane)
  if not call('HGET', P .. 'waiting', path_of(lane, target)) then return end
  t.earlier = t.earlier + 1
  call('HSET', P .. 'earlier:' .. target, lane, 0)
  local suspects = call('ZRANGE', P .. 'suspect:' .. lane, 0, -1)
  for i = 1, #suspects do
    local job = load(suspects[i])
    if job and job.target == target then
      unmake_ready(suspects[i], lane, target, job.key)
      make_ready(suspects[i], lane, target, job.key, job.rank, true)
    end
  end
end
for i = 1, new * #LANES do note_earlier(LANES[i]) end
local first = 0
while new == 1 or keys_change do
  local ids = call('ZRANGE', P .. 'leases', first, first + CHUNK - 1)
  read_lines(ids)
  for i = 1, #ids do look_at(ids[i]) end
  if #ids < CHUNK then break end
  first = first + CHUNK
end
commit()
return new
