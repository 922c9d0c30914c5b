-- Prepended to the claim, after what takes a job: a target's turns, in which its keys give a job each (docs: flows).

local goal        -- how many jobs there are to be in all once this lane is done with
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
  local found = blocked and {} or call('ZRANGE', queue, '-inf', limit, 'BYSCORE', 'LIMIT', 0, most)
  read_jobs(found)
  local before, out = taken_n, 0
  for i = 1, #found do
    budget = budget - 1
    local verdict = take(found[i], lane, k)
    if verdict == 'suspect' then
      passed_over[t.name] = true
      break
    end
    out = i
    if budget <= 0 or news then break end
  end
  if out > 0 then call('ZPOPMIN', queue, out) end
  if taken_n > before and not k.keyless then
    -- and is placed anew, since its next turn comes after those of the keys that wait by then
    call('ZREM', P .. 'ring:' .. lane .. ':' .. t.name, k.name)
  end
  queue_changed(k, lane)
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
  if verdict == 'taken' then
    -- and is placed anew, at the back
    call('ZREM', P .. 'ring:' .. lane .. ':' .. t.name, name)
  end
  queue_changed(k, lane)
  settle_key(k)
end

-- Reads the first jobs of a key's queue, those behind what this run has taken.
local function read_queue(q, size)
  call_many('ZREM', q.key, q.gone)
  q.gone = {}
  local found = call('ZRANGE', q.key, 0, size - 1, 'WITHSCORES')
  q.ids, q.ranks, q.at, q.size = {}, {}, 1, size
  for i = 1, #found, 2 do
    q.ids[#q.ids + 1] = found[i]
    q.ranks[#q.ranks + 1] = found[i + 1]
  end
  q.whole = #q.ids < size
end

-- The queues of the keys in a ring, in its order, and what taking their first jobs needs.
local function read_ring(t, lane, names, most)
  local each = math.ceil(most / #names)
  local concurrency = t.ordered == 1 and 1 or t.key_concurrency
  if concurrency > 0 then each = math.min(each, concurrency) end
  if t.key_interval > 0 then each = math.min(each, t.key_burst) end
  local queues, first = {}, {}
  for i = 1, #names do
    local q = { k = key_node(t, names[i]), gone = {} }
    q.key = queue_of(lane, q.k)
    read_queue(q, each + 1)
    queues[i] = q
  end
  for j = 1, each do
    for i = 1, #queues do
      if #first < most and queues[i].ids[j] then first[#first + 1] = queues[i].ids[j] end
    end
  end
  read_jobs(first)
  return queues
end

-- Where a key that was served stands in the ring from now on; false where it has no more that may run. `ring` has
-- queues by turn from its `next` on, all of them if it is `whole`.
local function place_served(t, q, ring, whole)
  if q.at > #q.ids and not q.whole then read_queue(q, q.size) end
  local rank = q.ranks[q.at]
  if not rank or key_blocked(q.k) then return false end
  t.turn = t.turn + 1
  local turn = class_of(rank) * SPAN + t.turn
  local at = #ring + 1
  while at > ring.next and ring[at - 1].turn > turn do at = at - 1 end
  if whole or at <= #ring then table.insert(ring, at, q) end
  q.turn, q.turned = turn, true
  return true
end

-- Puts back what a run has changed: the keys with more that may run all at once, the others each by itself.
local function end_ring(t, lane, served)
  local path = lane .. ':' .. t.name
  local ring, heads = {}, {}
  local queues, names, paths = {}, {}, {} -- those of keys that have no more jobs
  for i = 1, #served do
    local q = served[i]
    local over = not news and q.k.free and q.whole and q.at > #q.ids
    if not over then call_many('ZREM', q.key, q.gone) end
    if not q.k.free then touch_key(q.k) end
    if over then
      queues[#queues + 1], names[#names + 1], paths[#paths + 1] = q.key, q.k.name, q.k.path
    elseif q.ready then
      ring[#ring + 1], ring[#ring + 2] = q.turn, q.k.name
      heads[#heads + 1], heads[#heads + 2] = q.ranks[q.at], q.k.name
    else
      -- one whose next job is gone has had its turn, if it was served before that
      if q.turned then call('ZADD', P .. 'ring:' .. path, q.turn, q.k.name) end
      queue_changed(q.k, lane)
      settle_key(q.k)
    end
  end
  call_many('ZADD', P .. 'ring:' .. path, ring)
  call_many('ZADD', P .. 'heads:' .. path, heads)
  for first = 1, #queues, CHUNK do call('UNLINK', unpack(queues, first, math.min(first + CHUNK - 1, #queues))) end
  call_many('ZREM', P .. 'ring:' .. path, names)
  call_many('ZREM', P .. 'heads:' .. path, names)
  call_many('ZREM', P .. 'flows:' .. lane, paths)
  lane_changed(t, lane)
end

-- Turns of a target that has the rest of the lane for itself: of its keys in the ring's order, a job each, until no more
-- may run or something happens that the ring does not tell of.
local function serve_ring(t, lane)
  local most = allowance(t)
  local found = call('ZRANGE', P .. 'ring:' .. lane .. ':' .. t.name, 0, most - 1, 'WITHSCORES')
  local names, whole = {}, #found < 2 * most
  for i = 1, #found, 2 do names[#names + 1] = found[i] end
  local ring, served = read_ring(t, lane, names, most), {}
  for i = 1, #ring do ring[i].turn = tonumber(found[2 * i]) end
  ring.next = 1
  while ring[ring.next] and taken_n < goal and budget > 0 and not news and not target_blocked(t) do
    budget = budget - 1
    local q = ring[ring.next]
    ring.next = ring.next + 1
    if not q.served then served[#served + 1], q.served = q, true end
    -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
    local id = not key_blocked(q.k) and q.ids[q.at]
    local verdict = id and take(id, lane, q.k)
    if verdict == 'suspect' then
      passed_over[t.name], q.ready = true, true
      break
    end
    if id then
      q.gone[#q.gone + 1] = id
      q.at = q.at + 1
    end
    q.ready = verdict == 'taken' and place_served(t, q, ring, whole)
    if id and verdict ~= 'taken' then break end
  end
  end_ring(t, lane, served)
end

-- One turn of a target: its rank in the lane afterwards, nil if it has no more to give now.
local function serve_target(t, lane, limit)
  budget = budget - 1
  if passed_over[t.name] or target_blocked(t) then return nil end
  local ring = call('ZRANGE', P .. 'ring:' .. lane .. ':' .. t.name, 0, 1)
  if #ring == 0 then return nil end
  if #ring == 1 then
    serve_alone(t, lane, ring[1], limit)
  elseif limit == '+inf' and t.earlier == 0 then
    serve_ring(t, lane)
  else
    local name = next_key(t, lane, ring)
    if news then return nil end
    serve_key(t, lane, name)
  end
  if passed_over[t.name] or target_blocked(t) then return nil end
  local rank = call('ZRANGE', P .. 'heads:' .. lane .. ':' .. t.name, 0, 0, 'WITHSCORES')[2]
  return rank and tonumber(rank)
end
