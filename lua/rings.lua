-- Prepended to the claim, after single turns: many turns of a target in one go, and which of both a target is given.

-- Takes what a run has served of a key out of its queue: all that stands before the next one.
local function remove_served(q)
  if q.at == 3 then
    call('ZREM', q.key, q.found[1])
  elseif q.at > 3 then
    local gone = {}
    for i = 1, q.at - 2, 2 do gone[#gone + 1] = q.found[i] end
    call_many('ZREM', q.key, gone)
  end
end

-- Reads the first jobs of a key's queue and their ranks, those behind what this run has served: `size` of both. `whole`:
-- there are no more.
local function read_queue(q)
  remove_served(q)
  q.found, q.at = call('ZRANGE', q.key, 0, q.each, 'WITHSCORES'), 1
  q.size = #q.found
  q.whole = q.size < 2 * q.each + 2
end

-- The queues of the keys in a ring (names and turns in its order), and what taking their first jobs needs. `k` is the
-- node of a key that may be blocked.
local function read_ring(t, lane, in_ring, most)
  local count = #in_ring / 2
  local each = math.ceil(most / count)
  local concurrency = t.ordered == 1 and 1 or t.key_concurrency
  if concurrency > 0 then each = math.min(each, concurrency) end
  if t.key_interval > 0 then each = math.min(each, t.key_burst) end
  local path = P .. 'flow:' .. lane .. ':' .. t.name .. ':'
  local ring, first, n = { next = 1 }, {}, 0
  for i = 1, count do
    local name = in_ring[2 * i - 1]
    local q = { name = name, turn = tonumber(in_ring[2 * i]), key = path .. name, each = each, at = 1, found = NONE,
      size = 0, whole = false, served = false, ready = false, turned = false,
      k = t.bare ~= 1 and name ~= '' and key_node(t, name) }
    read_queue(q)
    ring[i] = q
  end
  for j = 1, 2 * each, 2 do
    for i = 1, count do
      local id = ring[i].found[j]
      if id and n < most then
        n = n + 1
        first[n] = id
      end
    end
  end
  read_jobs(first)
  return ring
end

-- Takes the next job of a key; most of a run start for the first time, and are told by `alike`, what these have in common.
local function take_next(t, lane, q, id, alike)
  local body = bodies[id]
  if body and alike and lines[id] == false and q.name ~= '' and sub(body, 1, alike.length) == alike.head then
    alike.n = alike.n + 1
    if not q.k then alike.free = alike.free + 1 end
    if followed then tell('started', id, lane, t.name, 1) end
    return start(id, alike.line .. q.name, '', body, q.k)
  end
  return take(id, lane, q.k or key_node(t, q.name))
end

-- Where a key that was served stands in the ring from now on; false where it has no more that may run. `ring` has
-- queues by turn from its `next` on, all of them if it is `whole`.
local function place_served(t, q, ring)
  if q.at > q.size and not q.whole then read_queue(q) end
  local rank = q.found[q.at + 1]
  if not rank or q.k and key_blocked(q.k) then return false end
  t.turn = t.turn + 1
  local turn = class_of(rank) * SPAN + t.turn
  local at = #ring + 1
  while at > ring.next and ring[at - 1].turn > turn do at = at - 1 end
  if ring.whole or at <= #ring then table.insert(ring, at, q) end
  q.turn, q.turned = turn, true
  return true
end

-- Puts back what a run has changed: the keys with more that may run all at once, the others each by itself.
local function end_ring(t, lane, served)
  local path = lane .. ':' .. t.name
  local ring, heads, n = {}, {}, 0
  local queues, names, paths, over_n = {}, {}, {}, 0 -- those of keys that have no more jobs
  for i = 1, #served do
    local q = served[i]
    local over = not news and not q.k and q.whole and q.at > q.size
    if q.k then touch_key(q.k) end
    if over then
      over_n = over_n + 1
      queues[over_n], names[over_n], paths[over_n] = q.key, q.name, t.name .. ':' .. q.name
    else
      remove_served(q)
      if q.ready then
        ring[n + 1], ring[n + 2] = q.turn, q.name
        heads[n + 1], heads[n + 2] = q.found[q.at + 1], q.name
        n = n + 2
      else
        -- one whose next job is gone has had its turn, if it was served before that
        if q.turned then call('ZADD', P .. 'ring:' .. path, q.turn, q.name) end
        local k = q.k or key_node(t, q.name)
        queue_changed(k, lane)
        settle_key(k)
      end
    end
  end
  call_many('ZADD', P .. 'ring:' .. path, ring)
  call_many('ZADD', P .. 'heads:' .. path, heads)
  for first = 1, over_n, CHUNK do call('UNLINK', unpack(queues, first, math.min(first + CHUNK - 1, over_n))) end
  call_many('ZREM', P .. 'ring:' .. path, names)
  call_many('ZREM', P .. 'heads:' .. path, names)
  call_many('ZREM', P .. 'flows:' .. lane, paths)
  lane_changed(t, lane)
end

-- Turns of a target that has the rest of the lane for itself: of its keys in the ring's order, a job each, until no more
-- may run or something happens that the ring does not tell of.
local function serve_ring(t, lane)
  local most = allowance(t)
  local in_ring = call('ZRANGE', P .. 'ring:' .. lane .. ':' .. t.name, 0, most - 1, 'WITHSCORES')
  local ring, served = read_ring(t, lane, in_ring, most), {}
  ring.whole = #in_ring < 2 * most
  local head = 'k|' .. t.name .. '|' .. lane .. '|'
  -- half open: the one that tries is noted
  local alike = not (t.breaker > 0 and t.open_until > 0)
    and { head = head, length = #head, line = FRESH .. head .. '=', n = 0, free = 0 }
  local upto = taken_n + most
  while ring[ring.next] and taken_n < upto and budget > 0 and not news do
    budget = budget - 1
    local q = ring[ring.next]
    ring.next = ring.next + 1
    if not q.served then served[#served + 1], q.served = q, true end
    -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
    local id = not (q.k and key_blocked(q.k)) and q.found[q.at]
    local verdict = id and take_next(t, lane, q, id, alike)
    if verdict == 'suspect' then
      passed_over[t.name], q.ready = true, true
      break
    end
    if id then q.at = q.at + 2 end
    q.ready = verdict == 'taken' and place_served(t, q, ring)
    if id and verdict ~= 'taken' then break end
  end
  if alike then
    waiting(lane, t.name, -alike.n)
    spend_free(t, alike.free)
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
