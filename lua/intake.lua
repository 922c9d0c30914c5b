-- Prepended to the scripts that take jobs in, after the endings: how a job comes in.

-- How many more pending jobs a lane may take in, as `left`.
local rooms
local function room(lane)
  local it = rooms[lane]
  if not it then
    -- a lane's name may hold `-` and `.`, which mean something in a pattern
    local cap = conf[4] and string.match(',' .. conf[4] .. ',', ',' .. string.gsub(lane, '%p', '%%%0') .. '=(%d+),')
    it = { left = cap and tonumber(cap) - tonumber(call('HGET', P .. 'waiting', lane) or 0) or math.huge }
    rooms[lane] = it
  end
  return it
end

local arriving -- the key of a lane or of a flow's queue -> flat list of `n` ranks and ids
local arriving_due
local bodies, bodies_n -- keys and values, and how many of both
local used -- terms under which jobs were accepted
at_begin(function()
  rooms, arriving, arriving_due, bodies, bodies_n, used = {}, {}, {}, {}, 0, {}
end)

-- What jobs have in common that come in together: where to, when, and their facts but for the key and the rank.
-- `run_at` (ms, or nil): what their records say of when they were to run, where that is not `delay` from now.
local function terms_of(lane, target, priority, delay, run_at, expires, max_attempts, callback)
  if delay > 0 then run_at = now_ms + delay end
  local c, x = callback ~= '' and 'c' or '', expires > 0 and 'x' or ''
  local facts = '|' .. target .. '|' .. lane .. '|' .. (expires > 0 and text(now_ms + expires) or '') .. '|' .. callback
    .. '|' .. text(max_attempts) .. '|' .. NOW .. '|' .. (run_at and text(run_at) or '') .. '|'
  return { lane = lane, target = target, delay = delay, room = room(lane), ranks = (100 - priority) * SPAN,
    keyless = c .. x .. facts .. '|', keyed = c .. 'k' .. x .. facts, due = now_us + delay * 1000, n = 0,
    list = false, lists = false } -- where its jobs come to wait, once that is known: the lane's, or by key
end

-- Where jobs under these terms and with this key come to wait.
local function list_for(terms, key)
  local t = target_node(terms.target)
  local k = t and key_node(t, key)
  local place = k and queue_of(terms.lane, k) or P .. 'lane:' .. terms.lane
  local list = arriving[place]
  if not list then
    list = { n = 0 }
    arriving[place] = list
    if k then queue_changed(k, terms.lane) end
  end
  if not k then
    terms.list = list
  else
    terms.lists = terms.lists or {}
    terms.lists[key] = list
  end
  return list
end

-- Makes a job that is not there yet, in a lane that has room(): its record and body (under `name`) and, once
-- place_accepted() has run, its counter and its place. `seq` is its turn among its equals. Returns its status.
local function accept(seq, id, name, terms, key, body)
  local rank = text(terms.ranks + seq)
  local facts = key == '' and terms.keyless .. rank or terms.keyed .. key .. '|' .. rank
  bodies[bodies_n + 1], bodies[bodies_n + 2] = name, facts .. '\n' .. body
  bodies_n = bodies_n + 2
  if terms.n == 0 then used[#used + 1] = terms end
  terms.n = terms.n + 1
  if followed then tell('accepted', id, terms.lane, terms.target) end
  if terms.delay > 0 then
    write_line(id, 'scheduled||0||||' .. facts)
    arriving_due[#arriving_due + 1] = terms.due
    arriving_due[#arriving_due + 1] = id
    return 'scheduled'
  end
  terms.room.left = terms.room.left - 1
  local list = terms.list or terms.lists and terms.lists[key] or list_for(terms, key)
  local n = list.n
  list[n + 1], list[n + 2], list.n = rank, id, n + 2
  return 'pending'
end

-- Writes what was accepted and puts it where a claim will find it, many at once.
local function place_accepted()
  for first = 1, bodies_n, CHUNK do call('MSET', unpack(bodies, first, math.min(first + CHUNK - 1, bodies_n))) end
  for place, list in pairs(arriving) do call_many('ZADD', place, list) end
  call_many('ZADD', P .. 'due', arriving_due)
  for i = 1, #used do
    local terms = used[i]
    bump('submitted', terms.lane, terms.target, terms.n)
    if terms.delay > 0 then
      stand('scheduled', terms.lane, terms.n)
    else
      waiting(terms.lane, terms.target, terms.n)
    end
    terms.n, terms.list, terms.lists, woken = 0, false, false, true
  end
  arriving, arriving_due, bodies, bodies_n, used = {}, {}, {}, 0, {}
end
