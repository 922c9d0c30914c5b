-- Prepended to the scripts that take jobs in, after the endings: how a job comes in.

-- Is it what jobs' records have of a callback (lua/submit.lua)?
local function is_callback(text)
  return match(text, '^[sdcr]*%d*$') or match(text, '^[sdcr]+%d*@%x%x:[^|\n]*$')
end

-- How many more pending jobs a lane may take in, as `left`.
local rooms -- nil: it was asked of none that is limited
local ENDLESS = { left = math.huge }
local function room(lane)
  if not caps[lane] then return ENDLESS end
  rooms = rooms or {}
  local it = rooms[lane]
  if not it then
    it = { left = caps[lane] - tonumber(call('HGET', K.waiting, lane) or 0) }
    rooms[lane] = it
  end
  return it
end

local arriving -- the key of a lane -> flat list of `n` ranks and ids
local arrivals -- what comes for targets with flows; nil: nothing
local arriving_due -- nil: nothing
local bodies, bodies_n -- keys and values, and how many of both
local used -- terms under which jobs were accepted; nil: there were none, and the other lists are of before
local function begin_intake()
  rooms, arrivals, arriving_due, bodies_n, used = nil, nil, nil, 0, nil
end
at_begin(begin_intake)

-- What jobs have in common that come in together: where to, when, and their facts but for the key and the rank.
-- `run_at` (ms, or nil): what their records say of when they were to run, where that is not `delay` from now.
local function terms_of(lane, target, priority, delay, run_at, expires, max_attempts, callback)
  local c, x = callback ~= '' and 'c' or '', expires > 0 and 'x' or ''
  return { lane = lane, target = target, delay = delay, run_at = run_at, expires = expires, ranks = (100 - priority) * SPAN,
    keyless = c .. x .. '|' .. target .. '|' .. lane .. '|', keyed = c .. 'k' .. x .. '|' .. target .. '|' .. lane .. '|',
    told = '|' .. callback .. '|' .. text(max_attempts) .. '|' }
end

-- The same for this call: `now` is what their records have between the terms' own facts and the key.
local function renew(terms)
  local delay, expires = terms.delay, terms.expires
  local run_at = delay > 0 and now_ms + delay or terms.run_at
  terms.now = (expires > 0 and text(now_ms + expires) or '') .. terms.told .. NOW .. (run_at and '|' .. text(run_at) .. '|' or '||')
  terms.room, terms.due, terms.n, terms.thousands = room(terms.lane), now_us + delay * 1000, 0, false
  terms.list, terms.arrival = nil, nil -- where its jobs come to wait, once that is known: in a lane, or in flows
  return terms
end

-- What comes for a target with flows in a lane: its `keys` in turn, and of each the rank and id of its first job, and a list
-- of all where there are more. `mixed`: under several terms, so that a later rank may be the less one.
local function arrival_of(t, lane)
  local by_lane = t.arrivals
  if not by_lane then by_lane = {}; t.arrivals = by_lane end
  local it = by_lane[lane]
  if not it then
    it = { t = t, lane = lane, n = 0, numbers = {}, keys = {}, ranks = {}, ids = {}, lists = {}, terms = nil, mixed = false }
    by_lane[lane] = it
    arrivals = arrivals or {}
    arrivals[#arrivals + 1] = it
  end
  return it
end

local function append(list, rank, id)
  local n = list.n
  list[n + 1], list[n + 2], list.n = rank, id, n + 2
end

-- Adds a job to these; the list of those with its key, if there are several.
local function arrive(it, key, rank, id)
  local at = it.numbers[key]
  if not at then
    at = it.n + 1
    it.n, it.numbers[key], it.keys[at], it.ranks[at], it.ids[at] = at, at, key, rank, id
    return nil
  end
  local list = it.lists[at]
  if list then
    append(list, rank, id)
  else
    list = { it.ranks[at], it.ids[at], rank, id, n = 4, head = nil }
    it.lists[at] = list
  end
  return list
end

-- Finds where jobs under these terms come to wait, and lists the first of them.
local function list_first(terms, key, rank, id)
  local t = target_node(terms.target)
  if t then
    local it = arrival_of(t, terms.lane)
    it.mixed, it.terms, terms.arrival = it.terms ~= nil, terms, it
    arrive(it, key, rank, id)
    return
  end
  local place = P .. 'lane:' .. terms.lane
  local list = arriving[place]
  if list then
    append(list, rank, id)
  else
    list = { rank, id, n = 2 }
    arriving[place] = list
  end
  terms.list = list
end

local LAST_DIGITS = {} -- of ranks, as texts, made as they are needed: whatever makes a text of a number takes its time
-- The rank of that turn under these terms: of those in a row only the last three digits change.
local function rank_of(terms, seq)
  local rank = terms.ranks + seq
  local last = rank % 1000
  local thousands = rank - last
  if thousands ~= terms.thousands then
    terms.thousands, terms.digits = thousands, nil
    return text(rank)
  end
  if thousands == 0 then return text(rank) end
  if not terms.digits then terms.digits = text(thousands / 1000) end
  local digits = LAST_DIGITS[last]
  if not digits then
    digits = format('%03d', last)
    LAST_DIGITS[last] = digits
  end
  return terms.digits .. digits
end

-- Makes a job that is not there yet, in a lane that has room(): its record and body (under `name`) and, once
-- place_accepted() has run, its counter and its place. `seq` is its turn among its equals. Returns its status.
local function accept(seq, id, name, terms, key, body)
  local rank = rank_of(terms, seq)
  if not used then arriving, bodies, used = {}, { nil, nil }, { nil } end -- room for one
  local head = key == '' and terms.keyless or terms.keyed
  bodies[bodies_n + 1], bodies[bodies_n + 2] = name, head .. terms.now .. key .. '|' .. rank .. '\n' .. body
  bodies_n = bodies_n + 2
  if terms.n == 0 then used[#used + 1] = terms end
  terms.n = terms.n + 1
  if followed then tell('accepted', id, terms.lane, terms.target) end
  if terms.delay > 0 then
    write_line(id, 'scheduled||0||||' .. head .. terms.now .. key .. '|' .. rank)
    arriving_due = arriving_due or {}
    arriving_due[#arriving_due + 1] = terms.due
    arriving_due[#arriving_due + 1] = id
    return 'scheduled'
  end
  terms.room.left = terms.room.left - 1
  if terms.list then
    append(terms.list, rank, id)
  elseif terms.arrival then
    arrive(terms.arrival, key, rank, id)
  else
    list_first(terms, key, rank, id)
  end
  return 'pending'
end

-- Makes the jobs of a batch from the number `i` on as accept() does, as long as they are under the same terms as the one
-- before and have no idempotency key: the number of the first that is not made so. Of each job there are in turn `width`
-- values: id, key, idempotency hash, its fingerprint, body, and which of the terms; `there` are those of the batch.
local function accept_run(values, width, i, count, names, terms, seq, place, there)
  local single, flow = terms.list, terms.arrival
  if i > count or followed or terms.delay > 0 or not (single or flow) then return i end
  local first, last = i, math.min(count, i + terms.room.left - 1)
  local keyless, keyed = terms.keyless .. terms.now .. '|', terms.keyed .. terms.now
  local at, b, n = width * (i - 1), bodies_n, single and single.n
  local numbers, lists, pure = flow and flow.numbers, flow and flow.lists, flow and not flow.mixed
  local own = values[at]
  while i <= last do
    local id, key = values[at + 1], values[at + 2]
    if values[at + 6] ~= own or values[at + 3] ~= '' or there[id] or sub(id, 35, 36) ~= place then break end
    local rank = rank_of(terms, seq + i)
    local text
    if single then
      single[n + 1], single[n + 2] = rank, id
      n = n + 2
      text = (key == '' and keyless or keyed .. key .. '|') .. rank .. '\n' .. values[at + 5]
    else
      local number = numbers[key]
      local list = number and lists[number]
      if list then
        local m = list.n
        list[m + 1], list[m + 2], list.n = rank, id, m + 2
      else
        list = arrive(flow, key, rank, id)
      end
      if list and pure then
        local head = list.head
        if not head then
          head = key == '' and keyless or keyed .. key .. '|'
          list.head = head
        end
        text = head .. rank .. '\n' .. values[at + 5]
      elseif key == '' then
        text = keyless .. rank .. '\n' .. values[at + 5]
      else
        text = keyed .. key .. '|' .. rank .. '\n' .. values[at + 5]
      end
    end
    bodies[b + 1], bodies[b + 2] = names[i], text
    there[id] = 'pending'
    b, at, i = b + 2, at + width, i + 1
  end
  if single then single.n = n end
  bodies_n, terms.n, terms.room.left = b, terms.n + i - first, terms.room.left - (i - first)
  return i
end

-- The least rank of those that came for the key of that number.
local function least_of(it, number)
  local least, list = it.ranks[number], it.mixed and it.lists[number] or NONE
  for i = 1, #list, 2 do
    if tonumber(list[i]) < tonumber(least) then least = list[i] end
  end
  return least
end

-- Puts keys that are never blocked into ring, heads and listing, those from one number to another, where what came is their
-- first job: one that is in heads has older ones, or of a better rank.
local function place_free(it, from, to)
  local t, keys, mixed = it.t, it.keys, it.mixed
  local path = it.lane .. ':' .. t.name
  local ring, heads, listed, n, over, turn = {}, {}, {}, 0, 0, t.turn
  for first = from, to, CHUNK do
    local found = call('ZMSCORE', P .. 'heads:' .. path, unpack(keys, first, math.min(first + CHUNK - 1, to)))
    for i = 1, #found do
      local key, head = keys[first + i - 1], found[i]
      local least = mixed and least_of(it, first + i - 1) or it.ranks[first + i - 1]
      if not head or tonumber(least) < tonumber(head) then
        heads[n + 1], heads[n + 2] = least, key
        n = n + 2
        local class = mixed and class_of(least) * SPAN or it.terms.ranks
        if not head or class_of(head) * SPAN ~= class then
          turn = turn + 1
          ring[over + 1], ring[over + 2] = class + turn, key
          over = over + 2
        end
        if not head then listed[#listed + 1], listed[#listed + 2] = 0, t.name .. ':' .. key end
      end
    end
  end
  if n == 0 then return end
  t.turn = turn
  call_many('ZADD', P .. 'ring:' .. path, ring)
  call_many('ZADD', P .. 'heads:' .. path, heads)
  call_many('ZADD', P .. 'flows:' .. it.lane, listed)
  lane_changed(t, it.lane)
end

-- Puts what came into the queues of its keys.
local function place_arrivals(it)
  local t, keys, ranks, ids, lists = it.t, it.keys, it.ranks, it.ids, it.lists
  local queues, bare = P .. 'flow:' .. it.lane .. ':' .. t.name .. ':', t.bare == 1
  for i = 1, it.n do
    local key, list = keys[i], lists[i]
    local k = not bare and key ~= '' and key_node(t, key)
    if list then call_many('ZADD', queues .. key, list) else call('ZADD', queues .. key, ranks[i], ids[i]) end
    if k then queue_changed(k, it.lane) end
  end
  if bare then
    place_free(it, 1, it.n)
  elseif it.numbers[''] then
    place_free(it, it.numbers[''], it.numbers[''])
  end
  t.arrivals = nil
end

-- Writes the bodies of jobs that are all new, if they are: false, and nothing is written, if one is there already.
local function write_new()
  local wrote = bodies_n == 0 or call('MSETNX', unpack(bodies)) == 1
  if wrote then bodies_n = 0 end
  return wrote
end

-- Takes back what was accepted and is not yet placed.
local function forget_accepted()
  lines, written, written_n = {}, {}, 0
  for i = 1, arrivals and #arrivals or 0 do arrivals[i].t.arrivals = nil end
  begin_intake()
end

-- Writes what was accepted and puts it where a claim will find it, many at once.
local function place_accepted()
  if not used then return end
  for first = 1, bodies_n, CHUNK do call('MSET', unpack(bodies, first, math.min(first + CHUNK - 1, bodies_n))) end
  for place, list in pairs(arriving) do call_many('ZADD', place, list) end
  for i = 1, arrivals and #arrivals or 0 do place_arrivals(arrivals[i]) end
  if arriving_due then call_many('ZADD', K.due, arriving_due) end
  for i = 1, #used do
    local terms = used[i]
    bump('submitted', terms.lane, terms.target, terms.n)
    if terms.delay > 0 then
      stand('scheduled', terms.lane, terms.n)
    else
      waiting(terms.lane, terms.target, terms.n)
    end
    terms.n, terms.list, terms.arrival, woken = 0, nil, nil, true
  end
  arrivals, arriving_due, bodies_n, used = nil, nil, 0, nil
end
