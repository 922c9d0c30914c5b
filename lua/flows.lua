-- Prepended after the records: flows, the sub-queues of targets that have limits (docs: flows).
--
-- A target with flows has ft:<target>; its pending jobs wait in one queue per key, the jobs without a key under ''.
--   ft:<target>        HASH  limits and state of the target     fk:<target>:<key>  HASH  state of one key
--   flow:<lane>:<target>:<key>  ZSET  pending ids by rank
--   ring:<lane>:<target>        ZSET  keys that may run, in turn: class * SPAN + a counter
--   heads:<lane>:<target>       ZSET  the same keys by the rank of their first job
--   flows:<lane>                ZSET  `<target>:<key>` of every queue of the lane that is not empty, all of score 0: what
--                                     listings walk, since a blocked key is in no ring
--   earlier:<target>            HASH  by lane: the rank up to which the jobs that came before the target had limits are
--                                     in its flows; those above it wait in the lane itself until a claim meets them
--   lane:<lane>                 ZSET  holds one reference `~<target>` at the least of heads
--   due                         ZSET  holds the timers `~<target>` and `~<target>:<key>` of nodes out of tokens
--
-- Two rules hold after every script (restore() makes them so for whatever the script touched):
--   a key is in ring and heads  <=>  its queue is not empty and the key is not blocked
--   ~T is in the lane, at the least of heads  <=>  the ring is not empty and the target is not blocked
-- A key is blocked while it is held (an `ordered` retry), at its concurrency, or out of tokens; a target while it is
-- paused or disabled, its breaker is open, it is at its concurrency, or out of tokens. Whatever unblocks a node (a settle, a
-- timer, resume, another limit) evaluates it whole, so no wake-up can be lost.

local TIMER_MOST = 10000000 -- us: a timer looks again at least this often, so that a changed limit is seen
local TARGET_STATE = { 'running', 'tat', 'timer', 'turn', 'used', 'window_at', 'blocked', 'lanes', 'earlier' }
local TARGET_LIMITS = { 'concurrency', 'interval', 'burst', 'quota', 'window', 'key_concurrency', 'key_interval',
  'key_burst', 'key_quota', 'key_window', 'ordered', 'paused', 'open_until', 'breaker' }
local KEY_STATE = { 'running', 'tat', 'timer', 'used', 'window_at', 'blocked', 'lanes', 'held' }
local TEXTS = { lanes = true, held = true }

local target_nodes, key_nodes
local touched_targets, touched_keys
local changed_queues -- key node -> set of lanes
local armed          -- is there something new in `due`?
at_begin(function()
  target_nodes, key_nodes, touched_targets, touched_keys, changed_queues, armed = {}, {}, {}, {}, {}, false
end)

local function read_fields(node, names, values)
  for i = 1, #names do
    local name = names[i]
    local value = values[name]
    node[name] = TEXTS[name] and (value or '') or tonumber(value or 0)
  end
end

-- A HASH by name; nil if there is none. Most targets have no flows and most keys no record, and then it is a good deal
-- cheaper than to ask for each field.
local function read_hash(key)
  local found = call('HGETALL', key)
  if not found[1] then return nil end
  local values = {}
  for i = 1, #found, 2 do values[found[i]] = found[i + 1] end
  return values
end

local function remember(node, names)
  local was = {}
  for i = 1, #names do was[names[i]] = node[names[i]] end
  node.was = was
end

-- The node of a target, or false if it has no flows.
local function target_node(name)
  local node = target_nodes[name]
  if node == nil then
    local values = read_hash(P .. 'ft:' .. name)
    node = false
    if values and values.running then
      node = { name = name }
      read_fields(node, TARGET_STATE, values)
      read_fields(node, TARGET_LIMITS, values)
      remember(node, TARGET_STATE)
      -- the clock of a failed-over server may lie behind the one that wrote this
      if node.interval > 0 then node.tat = math.min(node.tat, now_us + node.burst * node.interval) end
    end
    target_nodes[name] = node
  end
  return node
end

local function key_node(target, key)
  local path = target.name .. ':' .. key
  local node = key_nodes[path]
  if node == nil then
    node = { name = key, target = target, path = path, keyless = key == '' }
    local values = key ~= '' and read_hash(P .. 'fk:' .. path)
    read_fields(node, KEY_STATE, values or NONE)
    node.stored = values and true or false
    node.expiring = node.running == 0 and node.held == '' and node.lanes == '' and node.timer == 0
    remember(node, KEY_STATE)
    if target.key_interval > 0 then node.tat = math.min(node.tat, now_us + target.key_burst * target.key_interval) end
    key_nodes[path] = node
  end
  return node
end

local function touch_target(node) touched_targets[node.name] = node end
local function touch_key(node) touched_keys[node.path] = node end

local function queue_changed(node, lane)
  local lanes_of = changed_queues[node.path]
  if not lanes_of then lanes_of = {}; changed_queues[node.path] = lanes_of end
  lanes_of[lane] = true
  touch_key(node)
  touch_target(node.target)
end

local function lane_changed(target, lane)
  if not target.changed then target.changed = {} end
  target.changed[lane] = true
  touch_target(target)
end

local function has_lane(node, lane) return string.find(node.lanes, ',' .. lane .. ',', 1, true) end
local function add_lane_to(node, lane)
  if not has_lane(node, lane) then node.lanes = (node.lanes == '' and ',' or node.lanes) .. lane .. ',' end
end
local function drop_lane_from(node, lane)
  local from, to = has_lane(node, lane)
  if from then
    node.lanes = string.sub(node.lanes, 1, from) .. string.sub(node.lanes, to + 1)
    if node.lanes == ',' then node.lanes = '' end
  end
end

-- When a node that is out of tokens has one again, in us; 0 if it has one now. GCRA (ITU-T I.371) for the rate,
-- a fixed window for the quota.
local function free_at(node, interval, burst, quota, window)
  local at = 0
  if interval > 0 then
    local allowed = node.tat - (burst - 1) * interval
    if allowed > now_us then at = allowed end
  end
  if quota > 0 then
    local window_at = floor(now_us / window) * window
    if node.window_at ~= window_at then node.window_at, node.used = window_at, 0 end
    if node.used >= quota then at = math.max(at, window_at + window) end
  end
  return at
end

local function arm(node, member, at)
  armed = true
  node.timer = math.min(at, now_us + TIMER_MOST)
  call('ZADD', P .. 'due', node.timer, '~' .. member)
end

-- How many jobs of a target may run at once (0: any number): one while its breaker is half open.
local function concurrency_of(t)
  return t.breaker > 0 and t.open_until > 0 and 1 or t.concurrency
end

-- Is the target blocked? Arms its timer where time will unblock it.
local function target_blocked(t)
  if t.paused > 0 or t.timer > 0 then return true end
  local concurrency = concurrency_of(t)
  if concurrency > 0 and t.running >= concurrency then return true end
  local at = math.max(free_at(t, t.interval, t.burst, t.quota, t.window), t.open_until > now_us and t.open_until or 0)
  if at == 0 then return false end
  arm(t, t.name, at)
  touch_target(t)
  return true
end

local function key_blocked(k)
  if k.keyless then return false end
  local t = k.target
  if k.held ~= '' or k.timer > 0 then return true end
  local concurrency = t.ordered == 1 and 1 or t.key_concurrency
  if concurrency > 0 and k.running >= concurrency then return true end
  local at = free_at(k, t.key_interval, t.key_burst, t.key_quota, t.key_window)
  if at == 0 then return false end
  arm(k, k.path, at)
  touch_key(k)
  return true
end

-- A job of this target and key starts: both counts and both clocks move.
local function spend(t, k)
  t.running = t.running + 1
  t.used = t.used + (t.quota > 0 and 1 or 0)
  if t.interval > 0 then t.tat = math.max(t.tat, now_us) + t.interval end
  touch_target(t)
  if k.keyless then return end
  k.running = k.running + 1
  k.used = k.used + (t.key_quota > 0 and 1 or 0)
  if t.key_interval > 0 then k.tat = math.max(k.tat, now_us) + t.key_interval end
  touch_key(k)
end

-- A running job of this target and key ends or is given back. `hold`: the key waits for this id's retry.
local function unspend(target, key, hold)
  local t = target_node(target)
  if not t then return end
  t.running = math.max(0, t.running - 1)
  touch_target(t)
  if key == '' then return end
  local k = key_node(t, key)
  k.running = math.max(0, k.running - 1)
  if hold then k.held = hold end
  touch_key(k)
end

-- A job that its key waits for will not come back as a retry: the key goes on.
local function unhold(target, key, id)
  local t = key ~= '' and target_node(target)
  if not t then return end
  local k = key_node(t, key)
  if k.held == id then
    k.held = ''
    touch_key(k)
  end
end

local function queue_of(lane, k) return P .. 'flow:' .. lane .. ':' .. k.path end

-- How long the first job of a lane has been ready, in ms; 0 for an empty lane.
local function waited_ms(lane)
  local id = call('ZRANGE', P .. 'lane:' .. lane, 0, 0)[1]
  if not id then return 0 end
  if id == SUSPECTS then
    id = call('ZRANGE', P .. 'suspect:' .. lane, 0, 0)[1]
  elseif string.byte(id) == 126 then
    local path = lane .. ':' .. string.sub(id, 2)
    local key = call('ZRANGE', P .. 'heads:' .. path, 0, 0)[1]
    id = key and call('ZRANGE', P .. 'flow:' .. path .. ':' .. key, 0, 0)[1]
  end
  local job = id and load(id)
  return job and math.max(0, now_ms - tonumber(job.updated ~= '' and job.updated or job.created)) or 0
end

-- Puts a pending job where a claim will find it, at its rank.
local function make_ready(id, lane, target, key, rank, suspect)
  waiting(lane, target, 1)
  local t = target_node(target)
  if t then
    local k = key_node(t, key)
    call('ZADD', queue_of(lane, k), rank, id)
    queue_changed(k, lane)
  elseif suspect then
    call('ZADD', P .. 'suspect:' .. lane, rank, id)
    call('ZADD', P .. 'lane:' .. lane, 'LT', rank, SUSPECTS)
  else
    call('ZADD', P .. 'lane:' .. lane, rank, id)
  end
end

-- Takes a pending job out of where make_ready put it.
local function unmake_ready(id, lane, target, key)
  waiting(lane, target, -1)
  if call('ZREM', P .. 'lane:' .. lane, id) == 1 then return end
  local t = target_node(target)
  local k = t and key_node(t, key)
  if k and call('ZREM', queue_of(lane, k), id) == 1 then
    queue_changed(k, lane)
  elseif call('ZREM', P .. 'suspect:' .. lane, id) == 1 then
    place_suspects(lane)
  end
end

-- Keeps the index of queues that are not empty. Most queues stay as they are, and cost nothing: a key's record says in
-- which lanes it has jobs, and the jobs without a key, which are never blocked, are in the ring if there are any.
local function list_queue(k, lane, listed, filled)
  if filled and not listed then
    call('ZADD', P .. 'flows:' .. lane, 0, k.path)
  elseif listed and not filled then
    call('ZREM', P .. 'flows:' .. lane, k.path)
  end
end

-- Puts a key in, or takes it out of, its target's ring and heads in one lane.
local function place_key(k, lane, blocked)
  local t = k.target
  local path = lane .. ':' .. t.name
  local ring, heads = P .. 'ring:' .. path, P .. 'heads:' .. path
  local head = call('ZRANGE', queue_of(lane, k), 0, 0, 'WITHSCORES')
  local listed = has_lane(k, lane)
  if head[1] then add_lane_to(k, lane) else drop_lane_from(k, lane) end
  if blocked or not head[1] then
    call('ZREM', ring, k.name)
    local was_head = call('ZREM', heads, k.name) == 1
    list_queue(k, lane, listed or k.keyless and was_head, head[1])
    return
  end
  local class = class_of(head[2])
  local now_at = call('ZSCORE', ring, k.name)
  list_queue(k, lane, listed or k.keyless and now_at, true)
  if not now_at or class_of(now_at) ~= class then
    -- new, or its head is of another class now: at the back of that class
    t.turn = t.turn + 1
    touch_target(t)
    call('ZADD', ring, class * SPAN + t.turn, k.name)
  end
  call('ZADD', heads, head[2], k.name)
end

-- Writes what changed of a key. A field at its default is left out of a new record: most keys have one job, and say
-- little.
local function write_changes(key, k)
  local fields = {}
  for i = 1, #KEY_STATE do
    local name = KEY_STATE[i]
    if k[name] ~= k.was[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = TEXTS[name] and k[name] or text(k[name])
    end
  end
  if #fields > 0 then call('HSET', key, unpack(fields)) end
  k.stored = k.stored or #fields > 0
  remember(k, KEY_STATE)
end

local function write_key(k)
  local key = P .. 'fk:' .. k.path
  if k.running > 0 or k.held ~= '' or k.lanes ~= '' or k.timer > 0 then
    if k.stored and k.expiring then call('PERSIST', key) end
    k.expiring = false
    write_changes(key, k)
    return
  end
  -- idle: kept only while its clocks still say something
  local t = k.target
  local keep_us = t.key_interval > 0 and k.tat - now_us or 0
  if t.key_quota > 0 then keep_us = math.max(keep_us, k.window_at + t.key_window - now_us) end
  if keep_us > 0 then
    write_changes(key, k)
    call('PEXPIRE', key, math.ceil(keep_us / 1000))
    k.expiring = true
  elseif k.stored then
    call('DEL', key)
    k.stored = false
    for i = 1, #KEY_STATE do k.was[KEY_STATE[i]] = TEXTS[KEY_STATE[i]] and '' or 0 end
  end
end

-- Makes the first rule true for a key whose queue or state changed; its lanes are noted for the second.
local function settle_key(k)
  local blocked = key_blocked(k)
  local lanes_of = changed_queues[k.path]
  if (blocked and 1 or 0) ~= k.blocked then
    k.blocked = blocked and 1 or 0
    lanes_of = lanes_of or {}
    for lane in string.gmatch(k.lanes, '[^,]+') do lanes_of[lane] = true end
  end
  for lane in pairs(lanes_of or {}) do
    place_key(k, lane, blocked)
    lane_changed(k.target, lane)
  end
  changed_queues[k.path] = nil
end

local function restore_target(t)
  local blocked = target_blocked(t)
  if (blocked and 1 or 0) ~= t.blocked then
    t.blocked = blocked and 1 or 0
    for i = 1, #LANES do lane_changed(t, LANES[i]) end
  end
  for lane in pairs(t.changed or {}) do
    local first = not blocked and call('ZRANGE', P .. 'heads:' .. lane .. ':' .. t.name, 0, 0, 'WITHSCORES') or {}
    if first[1] then
      call('ZADD', P .. 'lane:' .. lane, first[2], '~' .. t.name)
      add_lane_to(t, lane)
      woken = true
    elseif has_lane(t, lane) then
      call('ZREM', P .. 'lane:' .. lane, '~' .. t.name)
      drop_lane_from(t, lane)
    end
  end
  t.changed = nil
  local fields = {}
  for i = 1, #TARGET_STATE do
    local name = TARGET_STATE[i]
    if t[name] ~= t.was[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = TEXTS[name] and t[name] or text(t[name])
      t.was[name] = t[name]
    end
  end
  if #fields > 0 then call('HSET', P .. 'ft:' .. t.name, unpack(fields)) end
end

-- Makes the two rules true again for every node that was touched, keys first.
local function restore()
  for _, k in pairs(touched_keys) do
    settle_key(k)
    if not k.keyless then write_key(k) end
  end
  touched_keys = {}
  for _, t in pairs(touched_targets) do restore_target(t) end
  touched_targets = {}
end

-- The end of a script that changed something: flows restored, records and counters written, those told who wait for a
-- job that ended, an idle dispatcher woken if there is work that was not there.
local function commit()
  restore()
  flush_records()
  flush_counters()
  tell_waiters()
  if #events > 0 then write_events() end
  if woken then wake_one() end
  if posted then wake_forwarder() end
end
