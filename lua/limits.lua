-- Prepended after the records: limits, of targets and of their keys (docs: flows). What waits for them is in flows.lua.
--
-- A node is a target with flows, or one of its keys; the jobs without a key are those of the key ''.
--   ft:<target>        HASH  limits and state of the target     fk:<target>:<key>  HASH  state of one key
--   due                ZSET  holds the timers `~<target>` and `~<target>:<key>` of nodes out of tokens
--
-- Most keys are never blocked: those of a target that has had no limits of keys since it has flows (`bare` 1) are told from
-- their queues alone, and have no record. Once it has some (2) the keys have records like any other's, but for those that
-- only wait since before; `lanes` of these is what their queues say. In 0, and without the field, all have had records.
--
-- A key is blocked while it is held (an `ordered` retry), at its concurrency, or out of tokens; a target while it is
-- paused or disabled, its breaker is open, it is at its concurrency, or out of tokens.

local TIMER_MOST = 10000000 -- us: a timer looks again at least this often, so that a changed limit is seen
local TARGET_STATE = { 'running', 'tat', 'timer', 'turn', 'used', 'window_at', 'blocked', 'lanes', 'earlier' }
local TARGET_LIMITS = { 'concurrency', 'interval', 'burst', 'quota', 'window', 'key_concurrency', 'key_interval',
  'key_burst', 'key_quota', 'key_window', 'ordered', 'paused', 'open_until', 'breaker', 'bare' }
local KEY_STATE = { 'running', 'tat', 'timer', 'used', 'window_at', 'blocked', 'lanes', 'held' }
local TEXTS = { lanes = true, held = true }

local target_nodes, key_nodes -- nil: none
local touched_targets, touched_keys -- nil: none
local armed -- is there something new in `due`?
at_begin(function()
  target_nodes, key_nodes, touched_targets, touched_keys, armed = {}, nil, nil, nil, false
end)

-- What a node is where nothing else is kept of it.
local NODE = { __index = {} }
for _, names in ipairs({ TARGET_STATE, TARGET_LIMITS, KEY_STATE }) do
  for _, name in ipairs(names) do NODE.__index[name] = TEXTS[name] and '' or 0 end
end
local IS_LIMIT = {}
for _, name in ipairs(TARGET_LIMITS) do IS_LIMIT[name] = true end

-- Makes a node of what is kept of it, names and values in turn; `was` is its state, so that only what changes is written.
local function fill(node, found)
  local was = setmetatable({ running = 0 }, NODE)
  for i = 1, #found, 2 do
    local name, value = found[i], found[i + 1]
    if not TEXTS[name] then value = tonumber(value) end
    node[name] = value
    if not IS_LIMIT[name] then was[name] = value end
  end
  node.was = was
  return setmetatable(node, NODE)
end

-- The node of a target, or false if it has no flows.
local function target_node(name)
  local node = target_nodes[name]
  if node == nil then
    local found = not (may_flow and not may_flow[name]) and call('HGETALL', P .. 'ft:' .. name) or NONE
    node = found[1] and fill({ name = name, changed = nil, running = false }, found)
    if node and node.running then
      -- the clock of a failed-over server may lie behind the one that wrote this
      if node.interval > 0 then node.tat = math.min(node.tat, now_us + node.burst * node.interval) end
    else
      node = false
    end
    target_nodes[name] = node
  end
  return node
end

-- A key that may be blocked, by its record.
local function read_key(target, key, path)
  local found = call('HGETALL', P .. 'fk:' .. path)
  local stored = found[1] and true or false
  local node = fill({ name = key, target = target, path = path, stored = stored, expiring = false }, found)
  node.expiring = node.running == 0 and node.held == '' and node.lanes == '' and node.timer == 0
  if target.key_interval > 0 then node.tat = math.min(node.tat, now_us + target.key_burst * target.key_interval) end
  for i = 1, not stored and target.bare == 2 and #LANES or 0 do
    if call('EXISTS', P .. 'flow:' .. LANES[i] .. ':' .. path) == 1 then
      node.lanes = (node.lanes == '' and ',' or node.lanes) .. LANES[i] .. ','
    end
  end
  return node
end

-- The node of a key. One that is `free` is never blocked, and has no record.
local function key_node(target, key)
  local path = target.name .. ':' .. key
  if not key_nodes then key_nodes = {} end
  local node = key_nodes[path]
  if node == nil then
    if key == '' or target.bare == 1 then
      node = { name = key, target = target, path = path, keyless = key == '', free = true, blocked = 0, lanes = '' }
    else
      node = read_key(target, key, path)
    end
    key_nodes[path] = node
  end
  return node
end

local function touch_target(node)
  if not touched_targets then touched_targets = {} end
  touched_targets[node.name] = node
end
local function touch_key(node)
  if not touched_keys then touched_keys = {} end
  touched_keys[node.path] = node
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

local function is_half_open(t) return t.breaker > 0 and t.open_until > 0 end

-- How many jobs of a target may run at once (0: any number): one while its breaker is half open.
local function concurrency_of(t)
  return is_half_open(t) and 1 or t.concurrency
end

-- Is the target blocked? Arms its timer where time will unblock it.
local function target_blocked(t)
  if t.paused > 0 or t.timer > 0 then return true end
  local concurrency = concurrency_of(t)
  if concurrency > 0 and t.running >= concurrency then return true end
  local at, open_until = 0, t.open_until
  if t.interval > 0 or t.quota > 0 then at = free_at(t, t.interval, t.burst, t.quota, t.window) end
  if open_until > now_us and open_until > at then at = open_until end
  if at == 0 then return false end
  arm(t, t.name, at)
  touch_target(t)
  return true
end

local function key_blocked(k)
  if k.free then return false end
  local t = k.target
  if k.held ~= '' or k.timer > 0 then return true end
  local concurrency = t.ordered == 1 and 1 or t.key_concurrency
  if concurrency > 0 and k.running >= concurrency then return true end
  if t.key_interval == 0 and t.key_quota == 0 then return false end
  local at = free_at(k, t.key_interval, t.key_burst, t.key_quota, t.key_window)
  if at == 0 then return false end
  arm(k, k.path, at)
  touch_key(k)
  return true
end

-- So many jobs of this target start whose keys are never blocked: its count and its clock move.
local function spend_free(t, n)
  t.running = t.running + n
  t.used = t.used + (t.quota > 0 and n or 0)
  if t.interval > 0 then t.tat = math.max(t.tat, now_us) + n * t.interval end
  touch_target(t)
end

-- A job of this target and key starts: both counts and both clocks move.
local function spend(t, k)
  spend_free(t, 1)
  if k.free then return end
  k.running = k.running + 1
  k.used = k.used + (t.key_quota > 0 and 1 or 0)
  if t.key_interval > 0 then k.tat = math.max(k.tat, now_us) + t.key_interval end
  touch_key(k)
end

-- A running job of this target and key ends or is given back, or `n` do. `hold`: the key waits for this id's retry.
local function unspend(target, key, hold, n)
  local t = target_node(target)
  if not t then return end
  t.running = math.max(0, t.running - (n or 1))
  touch_target(t)
  if key == '' or t.bare == 1 then return end
  local k = key_node(t, key)
  k.running = math.max(0, k.running - (n or 1))
  if hold then k.held = hold end
  touch_key(k)
end

-- A job that its key waits for will not come back as a retry: the key goes on.
local function unhold(target, key, id)
  local t = key ~= '' and target_node(target)
  if not t or t.bare == 1 then return end
  local k = key_node(t, key)
  if k.held == id then
    k.held = ''
    touch_key(k)
  end
end

-- What changed of a node since it was read or written, as HSET takes it; it counts as written from here on.
local function changes_of(node, names)
  local fields, was = {}, node.was
  for i = 1, #names do
    local name = names[i]
    local value = node[name]
    if value ~= was[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = TEXTS[name] and value or text(value)
      was[name] = value
    end
  end
  return fields
end

-- Writes what changed of a key. A field at its default is left out of a new record: most keys have one job, and say
-- little.
local function write_changes(key, k)
  local fields = changes_of(k, KEY_STATE)
  if #fields == 0 then return end
  call('HSET', key, unpack(fields))
  k.stored = true
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
    k.was = setmetatable({}, NODE)
  end
end
