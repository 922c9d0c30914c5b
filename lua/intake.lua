-- Prepended to the scripts that take jobs in, after the endings: how a job comes in.

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

local arriving -- the key of a lane or of a flow's queue -> flat list of `n` ranks and ids
local arrivals -- of targets with flows, by lane: what comes for keys that are never blocked; nil: nothing
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
  terms.list, terms.lists = nil, nil -- where its jobs come to wait, once that is known: the lane's, or by key
  return terms
end

-- What comes for a target's keys that are never blocked: lists by key, and all of them.
local function arrival_of(t, lane)
  local by_lane = t.arrivals
  if not by_lane then by_lane = {}; t.arrivals = by_lane end
  local it = by_lane[lane]
  if not it then
    it = { t = t, lane = lane, queues = P .. 'flow:' .. lane .. ':' .. t.name .. ':', by_key = {}, lists = {} }
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

-- Where jobs under these terms and with this key come to wait, this one among them.
local function list_job(terms, key, rank, id)
  local t = target_node(terms.target)
  local it = t and (key == '' or t.bare == 1) and arrival_of(t, terms.lane)
  local list
  if it then
    list = it.by_key[key]
    if list then
      append(list, rank, id)
      -- under the same terms a later one's rank is the greater one
      if tonumber(rank) < tonumber(list.least) then list.least = rank end
    else
      list = { rank, id, n = 2, key = key, least = rank }
      it.by_key[key] = list
      it.lists[#it.lists + 1] = list
    end
  else
    local k = t and key_node(t, key)
    local place = k and queue_of(terms.lane, k) or P .. 'lane:' .. terms.lane
    list = arriving[place]
    if list then
      append(list, rank, id)
    else
      list = { rank, id, n = 2 }
      arriving[place] = list
      if k then queue_changed(k, terms.lane) end
    end
  end
  if not t then
    terms.list = list
  else
    terms.lists = terms.lists or {}
    terms.lists[key] = list
  end
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
  local list = terms.list or terms.lists and terms.lists[key]
  if list then
    local n = list.n
    list[n + 1], list[n + 2], list.n = rank, id, n + 2
  else
    list_job(terms, key, rank, id)
  end
  return 'pending'
end

-- Makes the jobs of a batch from the number `i` on as accept() does, as long as they are under the same terms as the one
-- before and have no idempotency key: the number of the first that is not made so. Of each job there are in turn `width`
-- values: id, key, idempotency hash, its fingerprint, body, and which of the terms; `there` are those of the batch.
local function accept_run(values, width, i, count, names, terms, seq, place, there)
  local single, lists = terms.list, terms.lists
  if i > count or followed or terms.delay > 0 or not (single or lists) then return i end
  local first, last = i, math.min(count, i + terms.room.left - 1)
  local keyless, keyed = terms.keyless .. terms.now .. '|', terms.keyed .. terms.now
  local at, b, n = width * (i - 1), bodies_n, single and single.n
  local own = values[at]
  while i <= last do
    local id, key = values[at + 1], values[at + 2]
    if values[at + 6] ~= own or values[at + 3] ~= '' or there[id] or sub(id, 35, 36) ~= place then break end
    local rank = rank_of(terms, seq + i)
    bodies[b + 1], bodies[b + 2] = names[i], (key == '' and keyless or keyed .. key .. '|') .. rank .. '\n' .. values[at + 5]
    there[id] = 'pending'
    if single then
      single[n + 1], single[n + 2] = rank, id
      n = n + 2
    else
      local list = lists[key]
      if list then
        local m = list.n
        list[m + 1], list[m + 2], list.n = rank, id, m + 2
      else
        list_job(terms, key, rank, id)
      end
    end
    b, at, i = b + 2, at + width, i + 1
  end
  if single then single.n = n end
  bodies_n, terms.n, terms.room.left = b, terms.n + i - first, terms.room.left - (i - first)
  return i
end

-- Puts jobs into queues of keys that are never blocked, and these into ring, heads and listing where what came is their
-- first job: one that is in heads has older ones, or of a better rank.
local function place_arrivals(it)
  local t, lists, queues = it.t, it.lists, it.queues
  local names = {}
  for i = 1, #lists do
    local list = lists[i]
    names[i] = list.key
    if list.n == 2 then call('ZADD', queues .. list.key, list[1], list[2]) else call_many('ZADD', queues .. list.key, list) end
  end
  local path = it.lane .. ':' .. t.name
  local ring, heads, listed = {}, {}, {}
  for first = 1, #names, CHUNK do
    local found = call('ZMSCORE', P .. 'heads:' .. path, unpack(names, first, math.min(first + CHUNK - 1, #names)))
    for i = 1, #found do
      local key, least, head = names[first + i - 1], lists[first + i - 1].least, found[i]
      if not head or tonumber(least) < tonumber(head) then
        heads[#heads + 1], heads[#heads + 2] = least, key
        local class = class_of(least)
        if not head or class_of(head) ~= class then
          t.turn = t.turn + 1
          ring[#ring + 1], ring[#ring + 2] = class * SPAN + t.turn, key
        end
        if not head then listed[#listed + 1], listed[#listed + 2] = 0, t.name .. ':' .. key end
      end
    end
  end
  call_many('ZADD', P .. 'ring:' .. path, ring)
  call_many('ZADD', P .. 'heads:' .. path, heads)
  call_many('ZADD', P .. 'flows:' .. it.lane, listed)
  t.arrivals = nil
  lane_changed(t, it.lane)
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
    terms.n, terms.list, terms.lists, woken = 0, nil, nil, true
  end
  arrivals, arriving_due, bodies_n, used = nil, nil, 0, nil
end
