-- Prepended to the claim, after the endings: how a job is taken.

local nonce
local suspects_left  -- how many suspects may still be taken
local taken, taken_n -- the reply, and of how many jobs
local moved          -- of the jobs in it that are no longer as they were submitted: their number in it and what is new, in turn
local carried        -- bytes of the bodies in it, and of those that came to nothing
local budget         -- steps left; none once the reply carries a lot
local leases, ids    -- of the jobs taken
local bodies         -- id -> body, false if there is no such job
local news           -- has there come something to claim where the walk may have been already?
local alikes, alike  -- what jobs without flags have in common that start for the first time; those of the last plain one
local STARTED, FRESH, DEADLINE

local CARRIED_MOST = 4194304 -- a reply that takes long to arrive would eat up the leases of what it brings
local REPLY_HEAD = 6
local FIRST_FEW = 16         -- bodies that are read before the others, to see how long they are

local LINE = '^(%a+)|([^|]*)|(%d+)|%d*|(%d*)|(%d*)|(.*)$'

local goal -- how many jobs there are to be in all once this lane is done with

local function begin_taking(lease_ms, most)
  moved = {}
  -- with places for what most claims bring at least, which is cheaper than to make room for one after another
  taken, taken_n, carried, leases, ids, bodies = { -1, 0, now_ms, '', moved, 0, nil }, 0, 0, { nil, nil }, { nil }, {}
  news, budget = false, 4 * most + 16
  alikes, alike = {}, nil
  STARTED = '|' .. NOW .. '|'
  FRESH = 'running|1:' .. nonce .. '|1' .. STARTED .. '||' -- the line of a first attempt, up to its facts
  DEADLINE = text(now_ms + lease_ms)
end

-- A body counts also where its job has expired: until the script ends it is in the server's memory, which may not have
-- room for as many of them as a claim has steps.
local function carry(body)
  carried = carried + #body
  if carried >= CARRIED_MOST then budget = 0 end
end

local function reply(id, own, body)
  taken_n = taken_n + 1
  ids[taken_n] = id
  taken[REPLY_HEAD + taken_n] = body
  if own ~= '' then moved[#moved + 1], moved[#moved + 2] = taken_n, own end
  carry(body)
end

-- Jobs of that target, lane and key that start for the first time: their bodies' `head`, their line, how many there are.
local function first_attempts(flags, target, lane, key)
  local head = flags .. '|' .. target .. '|' .. lane .. '|'
  local it = { head = head, length = #head, target = target, lane = lane, n = 0,
    line = FRESH .. head .. (flags == 'k' and '=' .. key or '') }
  alikes[#alikes + 1] = it
  return it
end

-- Those that were taken no longer wait.
local function end_alikes()
  for i = 1, #alikes do
    if alikes[i].n > 0 then waiting(alikes[i].lane, alikes[i].target, -alikes[i].n) end
  end
end

-- The bodies of the first `count` of these jobs, in turn; where they are long not all of them, since few will be taken.
local function fetch_bodies(ids, count)
  if count == 1 then return { call('GET', P .. 'b:' .. ids[1]) } end
  local keys, all, bytes, prefix = {}, {}, 0, P .. 'b:'
  for i = 1, count do keys[i] = prefix .. ids[i] end
  local first, size = 1, FIRST_FEW
  while first <= count and bytes < CARRIED_MOST / 4 do
    local last = math.min(first + size - 1, count)
    local found = call('MGET', unpack(keys, first, last))
    for i = 1, last - first + 1 do
      local body = found[i]
      all[first + i - 1] = body
      if body then bytes = bytes + #body end
    end
    first, size = last + 1, CHUNK
  end
  return all
end

-- Reads all that taking these jobs needs, the first `most` of them.
local function read_jobs(ids, most)
  local count = math.min(#ids, most or #ids)
  read_lines(ids, count)
  local found = fetch_bodies(ids, count)
  for i = 1, #found do bodies[ids[i]] = found[i] end
end

local function body_of(id)
  local body = bodies[id]
  if body == nil then
    body = call('GET', P .. 'b:' .. id)
    bodies[id] = body
  end
  return body
end

-- Moves a plain job whose target has gained flows since it came into its flow, if that is what it is.
local function move(id)
  local job = load(id)
  if not job or not target_node(job.target) then return false end
  waiting(job.lane, job.target, -1)
  make_ready(id, job.lane, job.target, job.key, job.rank, has_flag(job, 's'))
  news = true
  return true
end

-- What keeps a job with flags from being taken: 'suspect' (not now), 'gone' (expired); nil if nothing does.
local function take_rare(id, lane, target, flags)
  local suspect = find(flags, 's', 1, true)
  if suspect and suspects_left <= 0 then return 'suspect' end
  if find(flags, 'x', 1, true) then
    local job = load(id)
    if tonumber(job.expires) <= now_ms then
      waiting(lane, target, -1)
      finish(id, job, 'dead', 'expired', '', '{"type":"expired","message":"not started before it expired"}')
      news = news or job.callback ~= '' -- it may have a callback
      return 'gone'
    end
  end
  if suspect then suspects_left = 0 end
end

local KEY = '^k|[^|]*|[^|]*|%d*|[^|]*|%d+|%d+|%d*|([^\n]*)|%d+\n'

-- A job starts, with this line of its own and what is new since it was submitted. `k`: the flow it comes from.
local function start(id, line, own, body, k)
  write_line(id, line)
  reply(id, own, body)
  leases[2 * taken_n - 1], leases[2 * taken_n] = DEADLINE, id
  if k then
    spend(k.target, k)
    -- half open: this is the one that tries
    if is_half_open(k.target) then call('HSET', P .. 'fb:' .. k.target.name, 'probe', id) end
  end
  return 'taken'
end

-- The same, of a job that is not looked at again in this claim, whose flow is told of it by itself.
local function start_plain(id, line, body)
  local n, w = taken_n + 1, written_n
  taken_n, ids[n], taken[REPLY_HEAD + n] = n, id, body
  leases[2 * n - 1], leases[2 * n] = DEADLINE, id
  written[w + 1], written[w + 2], written_n = id, line, w + 2
  carry(body)
  return 'taken'
end

-- The first attempt of a job whose facts are those that it was submitted with.
local function start_first(id, body, flags, target, lane, k)
  if flags == '' or flags == 'k' then
    local it = first_attempts(flags, target, lane, flags == 'k' and (k and k.name or match(body, KEY)))
    if k then k.alike = it elseif flags == '' then alike = it end
    it.n = 1
    return start(id, it.line, '', body, k)
  end
  waiting(lane, target, -1)
  return start(id, FRESH .. sub(body, 1, find(body, '\n', 1, true) - 1), '', body, k)
end

local function take_other(id, lane, k, body, line)
  local attempt, previous, updated, facts = 1, '', '', nil
  if line then
    local _, _, before, previous_ms, updated_ms, own = match(line, LINE)
    attempt, previous, updated, facts = tonumber(before) + 1, previous_ms, updated_ms, own
  end
  local flags, target = match(facts or body, '^(%a*)|([^|]*)')
  if not k and target_node(target) and (not find(flags, 's', 1, true) or suspects_left > 0) and move(id) then
    return 'moved'
  end
  if flags ~= '' then
    if lines[id] == nil then lines[id] = line end
    local verdict = take_rare(id, lane, target, flags)
    if verdict == 'gone' then carry(body) end
    if verdict then return verdict end
  end
  if followed then tell('started', id, lane, target, attempt) end
  if not line then return start_first(id, body, flags, target, lane, k) end
  waiting(lane, target, -1)
  return start(id, 'running|' .. attempt .. ':' .. nonce .. '|' .. attempt .. STARTED .. previous .. '|' .. updated .. '|' .. facts,
    attempt .. '|' .. previous .. '|' .. updated .. '|' .. facts, body, k)
end

-- Starts a job with that body, which stands as this line says: 'taken', 'gone' (expired, or no record), 'moved' (into its
-- flow), or 'suspect' (not now). `k`: the flow it comes from. Most are like the one before.
local function take_read(id, lane, k, body, line)
  if not body then return 'gone' end
  if line and sub(line, 1, #WAITS) == WAITS then lines[id], line = line, false end
  local it = alike
  if k then it = k.alike end
  if line or not it or sub(body, 1, it.length) ~= it.head then return take_other(id, lane, k, body, line) end
  it.n = it.n + 1
  if followed then tell('started', id, lane, it.target, 1) end
  return start(id, it.line, '', body, k)
end

local function take(id, lane, k)
  local body = body_of(id)
  return take_read(id, lane, k, body, body and line_of(id))
end

-- Where the first `count` of these jobs stand, and their bodies, in turn: what take_run() goes by. Nothing where each is to
-- be looked at by itself, since who follows is told of it.
local function fetch(ids, count)
  if count == 0 then return NONE, NONE end
  if count > CHUNK or followed then
    read_jobs(ids, count)
    return NONE, NONE
  end
  if next(lines) ~= nil then -- what this claim has changed is not to be fetched
    local own = {}
    for i = 1, count do
      if lines[ids[i]] == nil then read_lines(ids, count, i) end
      own[i] = lines[ids[i]]
    end
    return own, fetch_bodies(ids, count)
  end
  if count == 1 then return { call('HGET', K.state, ids[1]) }, fetch_bodies(ids, 1) end
  return call('HMGET', K.state, unpack(ids, 1, count)), fetch_bodies(ids, count)
end

-- Takes one of the jobs that were fetched.
local function take_fetched(ids, at, own, found, lane, k)
  local id, body, line = ids[at], found[at], own[at]
  budget = budget - 1
  if lines[id] == nil and body ~= nil then return take_read(id, lane, k, body, line) end
  if lines[id] == nil then lines[id] = line end
  return take(id, lane, k)
end

-- Starts the jobs that were fetched in turn, from the place `at` on, as long as they are told by `it`: the place of the
-- first that is not. What it starts is not looked at again in this claim.
local function take_run(it, ids_there, at, own, found)
  local head, length, line = it.head, it.length, it.line
  local n, w, bytes = taken_n, written_n, carried
  local first, last = at, at + math.min(goal - n, budget, #ids_there - at + 1) - 1
  while at <= last and bytes < CARRIED_MOST do
    local body, stands = found[at], own[at]
    if stands and sub(stands, 1, #WAITS) ~= WAITS or not body or sub(body, 1, length) ~= head then break end
    local id = ids_there[at]
    n = n + 1
    ids[n], taken[REPLY_HEAD + n] = id, body
    leases[2 * n - 1], leases[2 * n] = DEADLINE, id
    written[w + 1], written[w + 2] = id, line
    w = w + 2
    at = at + 1
    bytes = bytes + #body
  end
  it.n = it.n + at - first
  taken_n, written_n, carried, budget = n, w, bytes, bytes < CARRIED_MOST and budget - (at - first) or 0
  return at
end
