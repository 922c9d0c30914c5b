-- Prepended to the scripts that take jobs in, after the endings: how a job comes in.

-- How many more pending jobs a lane may take in.
local rooms
local function room(lane)
  if not rooms[lane] then
    -- a lane's name may hold `-` and `.`, which mean something in a pattern
    local cap = conf[4] and string.match(',' .. conf[4] .. ',', ',' .. string.gsub(lane, '%p', '%%%0') .. '=(%d+),')
    rooms[lane] = cap and tonumber(cap) - tonumber(call('HGET', P .. 'waiting', lane) or 0) or math.huge
  end
  return rooms[lane]
end

local arriving -- the key of a lane or of a flow's queue -> flat list of rank and id
local arriving_due
local last_lane, last_lane_key -- jobs of a batch mostly share it
local bodies -- keys and values
at_begin(function()
  rooms, arriving, arriving_due, bodies, last_lane = {}, {}, {}, {}, nil
end)

local function lane_key(lane)
  if lane ~= last_lane then last_lane, last_lane_key = lane, P .. 'lane:' .. lane end
  return last_lane_key
end

-- Makes a job that is not there yet, in a lane that has room() for it: its record, body and counter, and, once
-- place_accepted() has run, its place. `seq` is its turn among its equals; `run_at` (ms, or nil) what its record says
-- of when it was to run, where that is not `delay` from now. Returns its status.
local function accept(seq, id, lane, target, key, priority, delay, run_at, expires, max_attempts, callback, body)
  local rank = text((100 - priority) * SPAN + seq)
  local status = 'pending'
  if delay > 0 then run_at = now_ms + delay else rooms[lane] = room(lane) - 1 end
  local flags = (callback ~= '' and 'c' or '') .. (key ~= '' and 'k' or '') .. (expires > 0 and 'x' or '')
  local facts = flags .. '|' .. target .. '|' .. lane .. '|' .. (expires > 0 and text(now_ms + expires) or '') .. '|'
    .. callback .. '|' .. max_attempts .. '|' .. NOW .. '|' .. (run_at and text(run_at) or '') .. '|' .. key .. '|' .. rank
  bodies[#bodies + 1] = P .. 'b:' .. id
  bodies[#bodies + 1] = facts .. '\n' .. body
  if delay > 0 then
    status = 'scheduled'
    write_line(id, 'scheduled||0||||' .. facts)
    stand('scheduled', lane, 1)
    arriving_due[#arriving_due + 1] = now_us + delay * 1000
    arriving_due[#arriving_due + 1] = id
  else
    local t = target_node(target)
    local k = t and key_node(t, key)
    if k then queue_changed(k, lane) end
    local place = k and queue_of(lane, k) or lane_key(lane)
    local list = arriving[place]
    if not list then list = {}; arriving[place] = list end
    list[#list + 1] = rank
    list[#list + 1] = id
    waiting(lane, target, 1)
  end
  bump('submitted', lane, target)
  if followed then tell('accepted', id, lane, target) end
  woken = true
  return status
end

-- Writes what was accepted and puts it where a claim will find it, many at once.
local function place_accepted()
  for first = 1, #bodies, CHUNK do call('MSET', unpack(bodies, first, math.min(first + CHUNK - 1, #bodies))) end
  for place, list in pairs(arriving) do call_many('ZADD', place, list) end
  call_many('ZADD', P .. 'due', arriving_due)
  arriving, arriving_due, bodies = {}, {}, {}
end
