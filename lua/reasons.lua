-- Prepended, after the endings, to the scripts that tell why jobs wait; they write nothing, so looking changes nothing.

-- What a node is out of: concurrency, quota or rate; nil if it has some of each. A timer counts until it went off.
local function short_of(node, concurrency, interval, burst, quota, window)
  if concurrency > 0 and node.running >= concurrency then return 'concurrency' end
  if free_at(node, 0, 0, quota, window) > 0 then return 'quota' end
  if free_at(node, interval, burst, 0, 0) > 0 or node.timer > 0 then return interval > 0 and 'rate' or 'quota' end
end

-- Why no job of a target may start now; nil if one may.
local function target_waits_on(t)
  if t.paused > 0 then return t.paused == 2 and 'disabled' or 'paused' end
  if t.open_until > now_us or is_half_open(t) and t.running > 0 then return 'breaker' end
  return short_of(t, t.concurrency, t.interval, t.burst, t.quota, t.window)
end

-- Why no job of a key may start now: what its target waits for, else `key`; nil if one may.
local function key_waits_on(t, k)
  local reason = target_waits_on(t)
  if reason or k.free then return reason end
  local concurrency = t.ordered == 1 and 1 or t.key_concurrency
  if k.held ~= '' or short_of(k, concurrency, t.key_interval, t.key_burst, t.key_quota, t.key_window) then return 'key' end
end
