-- Prepended to the claim, after what takes a job: a target's turns, in which its keys give a job each (docs: flows). Many
-- turns in one go are in rings.lua.

local look_most   -- jobs of earlier times that may still be looked for
local passed_over -- targets whose first job is a suspect that may not run now

local LOOK = 20 -- a look costs as much as so many jobs

local function begin_turns()
  look_most, passed_over = 2 * CHUNK, {}
end

local function is_reference(member)
  return member == SUSPECTS or string.byte(member) == 126
end

-- Is every job of the target in its flow that came before it had limits and whose rank is at most this one? Puts those
-- there as far as the claim may still look for them.
local function is_gathered(t, lane, rank)
  local earlier = P .. 'earlier:' .. t.name
  local from = call('HGET', earlier, lane)
  while from and tonumber(from) < rank and look_most > 0 do
    local found = call('ZRANGE', P .. 'lane:' .. lane, '(' .. from, '+inf', 'BYSCORE', 'LIMIT', 0, CHUNK, 'WITHSCORES')
    look_most = look_most - math.max(LOOK, #found / 2)
    local gone = {}
    for i = 1, #found, 2 do
      if not is_reference(found[i]) and move(found[i]) then gone[#gone + 1] = found[i] end
    end
    call_many('ZREM', P .. 'lane:' .. lane, gone)
    from = #found == 2 * CHUNK and found[#found]
    if from then
      call('HSET', earlier, lane, from)
    else
      call('HDEL', earlier, lane)
      t.earlier = t.earlier - 1
      touch_target(t)
    end
  end
  return not from or tonumber(from) >= rank
end

-- The key that is served next of a target with these keys in its ring: the first. While older jobs of that key may be
-- in the lane still it is the one whose first job is the oldest.
local function next_key(t, lane, ring)
  if t.earlier == 0 or not ring[2] then return ring[1] end
  local head = call('ZRANGE', queue_of(lane, key_node(t, ring[1])), 0, 0, 'WITHSCORES')
  if is_gathered(t, lane, tonumber(head[2])) then return ring[1] end
  return call('ZRANGE', P .. 'heads:' .. lane .. ':' .. t.name, 0, 0)[1]
end

-- How many more jobs of a node that is not blocked may start, at most so many.
local function left_of(node, most, concurrency, interval, burst, quota)
  if concurrency > 0 then most = math.min(most, concurrency - node.running) end
  if interval > 0 then
    most = math.min(most, floor((now_us - math.max(node.tat, now_us) + (burst - 1) * interval) / interval) + 1)
  end
  if quota > 0 then most = math.min(most, quota - node.used) end
  return math.max(1, most)
end

-- How many more jobs of a target may start in this claim.
local function allowance(t)
  return left_of(t, goal - taken_n, concurrency_of(t), t.interval, t.burst, t.quota)
end

-- A run of the jobs of one key, or of those without one, while no other key of its target waits: those of rank up to
-- `limit`.
local function serve_alone(t, lane, name, limit)
  local k = key_node(t, name)
  local queue = queue_of(lane, k)
  -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
  local blocked, most = key_blocked(k), allowance(t)
  if not k.free then
    most = left_of(k, most, t.ordered == 1 and 1 or t.key_concurrency, t.key_interval, t.key_burst, t.key_quota)
  end
  local queued = blocked and NONE or limit == '+inf' and call('ZRANGE', queue, 0, most - 1)
    or call('ZRANGE', queue, '-inf', limit, 'BYSCORE', 'LIMIT', 0, most)
  local own, found = fetch(queued, #queued)
  local before, at = taken_n, 1
  while at <= #queued and budget > 0 and not news do
    local from = at
    -- a key's counts, and the one that tries while its breaker is half open, are a matter of each job
    if k.free and k.alike and not is_half_open(t) then
      local n = taken_n
      at = take_run(k.alike, queued, at, own, found)
      spend_free(t, taken_n - n)
    end
    if at == from then
      if take_fetched(queued, at, own, found, lane, k) == 'suspect' then
        passed_over[t.name] = true
        break
      end
      at = at + 1
    end
  end
  if at > 1 then call('ZREMRANGEBYRANK', queue, 0, at - 2) end
  -- its next turn comes after those of the keys that wait by then
  queue_changed(k, lane, taken_n > before and not k.keyless)
  settle_key(k)
end

-- The first job of the key whose turn it is. An expired one does not spend the turn; after a job the key goes to the
-- back of its next job's class.
local function serve_key(t, lane, name)
  local k = key_node(t, name)
  local queue = queue_of(lane, k)
  -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
  local head = key_blocked(k) and {} or call('ZRANGE', queue, 0, 0)
  local verdict = 'gone'
  if head[1] then
    verdict = take(head[1], lane, k)
    if verdict == 'suspect' then
      passed_over[t.name] = true
      return
    end
    call('ZREM', queue, head[1])
  end
  queue_changed(k, lane, verdict == 'taken')
  settle_key(k)
end
