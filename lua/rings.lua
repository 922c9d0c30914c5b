-- Prepended to the claim, after single turns: many turns of a target in one go, and which of both a target is given.

local serve_target
do
  -- Takes what a run has served of a key out of its queue: all that stands before the next one.
  local function remove_served(q)
    if q.at == 3 then
      call('ZREM', q.key, q.found[1])
    elseif q.at > 3 then
      call('ZREMRANGEBYRANK', q.key, 0, (q.at - 3) / 2)
    end
  end

  -- Reads the first jobs of a key's queue and their ranks anew, those behind what this run has served: `size` of both.
  local function read_queue(q, each)
    remove_served(q)
    q.found, q.at = call('ZRANGE', q.key, 0, each, 'WITHSCORES'), 1
    q.size = #q.found
  end

  -- Reads the queues of the keys in a ring (names and turns in its order): of each the first jobs and their ranks, `each` and
  -- one more, and what taking so many of these jobs needs, in the order in which they come if each key gives one in turn.
  local function read_ring(t, lane, in_ring, most)
    local count = #in_ring / 2
    local each = math.ceil(most / count)
    local concurrency = t.ordered == 1 and 1 or t.key_concurrency
    if concurrency > 0 then each = math.min(each, concurrency) end
    if t.key_interval > 0 then each = math.min(each, t.key_burst) end
    local path = P .. 'flow:' .. lane .. ':' .. t.name .. ':'
    local keys, founds, first, n = {}, {}, {}, 0
    for i = 1, count do
      local key = path .. in_ring[2 * i - 1]
      keys[i], founds[i] = key, call('ZRANGE', key, 0, each, 'WITHSCORES')
    end
    for j = 1, 2 * each, 2 do
      for i = 1, count do
        local id = founds[i][j]
        if id and n < most then
          n = n + 1
          first[n] = id
        end
      end
    end
    local own, bodies = fetch(first, n)
    return { names = in_ring, count = count, keys = keys, founds = founds, first = first, own = own, bodies = bodies,
      next = 1, last = count, class = 0, each = each, most = 2 * each + 2, whole = #in_ring < 2 * most, visited = 0 }
  end

  -- The keys of a ring as what single turns of them need: the `name` of each, the turn that `was` its own and the one that it
  -- has got, the `key` of its queue, of that what was found and `at` what it stands, is it `ready` again, and `k`, its node
  -- if it may be blocked.
  local function queues_of(ring, t)
    for i = 1, ring.count do
      local name, found = ring.names[2 * i - 1], ring.founds[i]
      ring[i] = { name = name, was = ring.names[2 * i], turn = false, key = ring.keys[i], found = found, size = #found, at = 1,
        ready = nil, k = t.bare ~= 1 and name ~= '' and key_node(t, name) or nil }
    end
  end

  -- Has what was fetched of the jobs that are still to come at hand by their ids: they come in another order.
  local function keep_fetched(ring)
    for i = ring.visited + 1, #ring.first do
      local id = ring.first[i]
      if lines[id] == nil then lines[id], bodies[id] = ring.own[i], ring.bodies[i] end
    end
    ring.first = NONE
  end

  -- Takes the next job of a key. Most come in the order in which they were fetched and start for the first time; these are
  -- told by `alike`, what they have in common.
  local function take_next(t, lane, ring, q, id, alike)
    local at = ring.visited + 1
    if ring.first[at] == id then
      local body = ring.bodies[at]
      if alike and body and ring.own[at] == false and q.name ~= '' and sub(body, 1, alike.length) == alike.head then
        ring.visited, alike.n = at, alike.n + 1
        if q.k then return start(id, alike.line .. q.name, '', body, q.k) end
        alike.free = alike.free + 1
        return start_plain(id, alike.line .. q.name, body)
      end
    end
    keep_fetched(ring)
    return take(id, lane, q.k or key_node(t, q.name))
  end

  local function turn_of(q)
    if q.turn then return q.turn end
    q.was = tonumber(q.was)
    return q.was
  end

  -- Where a key that was served stands in the ring from now on; false where it has no more that may run. `ring` has
  -- queues by turn from its `next` on, all of them if it is `whole`.
  local function place_served(t, q, ring)
    if q.at > q.size and q.size == ring.most then read_queue(q, ring.each) end
    local rank = q.found[q.at + 1]
    if not rank or q.k and key_blocked(q.k) then return false end
    t.turn = t.turn + 1
    local number = rank - 0
    if number < ring.class or number >= ring.class + SPAN then ring.class = class_of(rank) * SPAN end
    local turn, last = ring.class + t.turn, ring.last
    local at = last + 1
    while at > ring.next and turn_of(ring[at - 1]) > turn do at = at - 1 end
    if at <= last then
      table.insert(ring, at, q)
      ring.last = last + 1
    elseif ring.whole then
      ring[at], ring.last = q, at
    end
    q.turn = turn
    return true
  end

  -- Puts keys with more that may run back, with their turns and head ranks, and takes those out whose queues are over.
  local function write_ring(t, lane, ring, heads, queues, names, paths)
    local path = lane .. ':' .. t.name
    call_many('ZADD', P .. 'ring:' .. path, ring)
    call_many('ZADD', P .. 'heads:' .. path, heads)
    for first = 1, #queues, CHUNK do call('UNLINK', unpack(queues, first, math.min(first + CHUNK - 1, #queues))) end
    call_many('ZREM', P .. 'ring:' .. path, names)
    call_many('ZREM', P .. 'heads:' .. path, names)
    call_many('ZREM', P .. 'flows:' .. lane, paths)
    lane_changed(t, lane)
  end

  -- Puts back what a run has changed: the keys with more that may run all at once, the others each by itself.
  local function end_ring(t, lane, served, most)
    local ring, heads, n = {}, {}, 0
    local queues, names, paths, over_n = {}, {}, {}, 0 -- those of keys that have no more jobs
    for i = 1, #served do
      local q = served[i]
      local over = not news and not q.k and q.size < most and q.at > q.size
      if q.k then touch_key(q.k) end
      if over then
        over_n = over_n + 1
        queues[over_n], names[over_n], paths[over_n] = q.key, q.name, t.name .. ':' .. q.name
      else
        remove_served(q)
        if q.ready then
          ring[n + 1], ring[n + 2] = q.turn or q.was, q.name
          heads[n + 1], heads[n + 2] = q.found[q.at + 1], q.name
          n = n + 2
        else
          -- one whose next job is gone has had its turn, if it was served before that
          if q.turn then call('ZADD', P .. 'ring:' .. lane .. ':' .. t.name, q.turn, q.name) end
          local k = q.k or key_node(t, q.name)
          queue_changed(k, lane)
          settle_key(k)
        end
      end
    end
    write_ring(t, lane, ring, heads, queues, names, paths)
  end

  -- Are all that were found of one class, so that the keys' turns are rounds?
  local function is_level(ring)
    local names = ring.names
    local class = class_of(names[2]) * SPAN
    if tonumber(names[#names]) >= class + SPAN then return false end
    for i = 1, ring.count do
      local found = ring.founds[i]
      local size = #found
      if size > 2 and tonumber(found[size]) >= class + SPAN then return false end
    end
    ring.class = class
    return true
  end

  -- Puts back what rounds have changed, in the last of which, at the place `j` of what was found, the key of number `i` was the
  -- last one: those behind it had their last turns in the round before.
  local function end_rounds(t, lane, ring, i, j)
    local names, keys, founds, count, class, turn = ring.names, ring.keys, ring.founds, ring.count, ring.class, t.turn
    local turns, heads, n = {}, {}, 0
    local queues, gone, paths, over_n = {}, {}, {}, 0
    for place = i, i + count - 1 do
      local x = place % count + 1
      local at = x <= i and j + 2 or j
      if at > 1 then
        local name, found = names[2 * x - 1], founds[x]
        local rank = found[at + 1]
        if rank then
          turn = turn + 1
          turns[n + 1], turns[n + 2], heads[n + 1], heads[n + 2] = class + turn, name, rank, name
          n = n + 2
          if at == 3 then call('ZREM', keys[x], found[1]) else call('ZREMRANGEBYRANK', keys[x], 0, (at - 3) / 2) end
        else
          over_n = over_n + 1
          queues[over_n], gone[over_n], paths[over_n] = keys[x], name, t.name .. ':' .. name
        end
      end
    end
    t.turn = turn
    write_ring(t, lane, turns, heads, queues, gone, paths)
  end

  -- Rounds of keys that are never blocked: of each the next job, for as long as they start for the first time and are told by
  -- `alike`. How many; what comes then is for single turns.
  local function serve_rounds(t, lane, ring, alike)
    local names, founds, count, each, own, bodies = ring.names, ring.founds, ring.count, ring.each, ring.own, ring.bodies
    local head, length, prefix, lines = alike.head, alike.length, alike.line, {}
    local n, w, bytes, before = taken_n, written_n, carried, taken_n
    local at, last, i, j = 1, math.min(#bodies, budget), 0, 1
    while at <= last and bytes < CARRIED_MOST do
      local body = bodies[at]
      if own[at] or not body or sub(body, 1, length) ~= head then break end
      local id
      repeat
        i = i + 1
        if i > count then i, j = 1, j + 2 end
        id = founds[i][j]
      until id
      local line = lines[i]
      if not line then
        line = prefix .. names[2 * i - 1]
        if each > 1 then lines[i] = line end
      end
      n = n + 1
      ids[n], taken[REPLY_HEAD + n] = id, body
      leases[2 * n - 1], leases[2 * n] = DEADLINE, id
      written[w + 1], written[w + 2] = id, line
      w = w + 2
      at = at + 1
      bytes = bytes + #body
    end
    if n == before then return 0 end
    taken_n, written_n, carried, budget = n, w, bytes, bytes < CARRIED_MOST and budget - (n - before) or 0
    waiting(lane, t.name, before - n)
    spend_free(t, n - before)
    end_rounds(t, lane, ring, i, j)
    return n - before
  end

  -- Turns of a target that has the rest of the lane for itself: of these keys in the ring's order, a job each, until no more
  -- may run or something happens that the ring does not tell of.
  local function serve_ring(t, lane, in_ring, most)
    local ring, served = read_ring(t, lane, in_ring, most), {}
    local head = 'k|' .. t.name .. '|' .. lane .. '|'
    -- half open: the one that tries is noted
    local alike = not is_half_open(t)
      and { head = head, length = #head, line = FRESH .. head .. '=', n = 0, free = 0 }
    if alike and t.bare == 1 and is_level(ring) and serve_rounds(t, lane, ring, alike) > 0 then return end
    queues_of(ring, t)
    local upto = taken_n + most
    while ring[ring.next] and taken_n < upto and budget > 0 and not news do
      budget = budget - 1
      local q = ring[ring.next]
      ring.next = ring.next + 1
      if q.ready == nil then served[#served + 1] = q end
      -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
      local id = not (q.k and key_blocked(q.k)) and q.found[q.at]
      local verdict = id and take_next(t, lane, ring, q, id, alike)
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
    end_ring(t, lane, served, ring.most)
  end

  -- One turn of a target: its rank in the lane afterwards, nil if it has no more to give now.
  function serve_target(t, lane, limit)
    budget = budget - 1
    if passed_over[t.name] or target_blocked(t) then return nil end
    local many = limit == '+inf' and t.earlier == 0 and allowance(t)
    local path = lane .. ':' .. t.name
    local ring
    if many then
      ring = call('ZRANGE', P .. 'ring:' .. path, 0, math.max(2, many) - 1, 'WITHSCORES')
    else
      ring = call('ZRANGE', P .. 'ring:' .. path, 0, 1)
    end
    if #ring == 0 then return nil end
    if #ring == (many and 2 or 1) then
      serve_alone(t, lane, ring[1], limit)
    elseif many then
      serve_ring(t, lane, ring, many)
    else
      local name = next_key(t, lane, ring)
      if news then return nil end
      serve_key(t, lane, name)
    end
    if passed_over[t.name] or target_blocked(t) then return nil end
    return call('ZRANGE', P .. 'heads:' .. path, 0, 0, 'WITHSCORES')[2]
  end
end
