-- Prepended, after the endings, to the scripts that settle and control: a target's circuit breaker, and its notices.
--
-- ft:<target> has `breaker` (the least attempts in a window that count; 0: it has none) and `open_until` (us; 0: closed;
-- to come: open, and no job starts; past: half open, and one job at a time tries). Beside it:
--   fb:<target>  HASH  breaker_ratio (failures of 100 that open it), breaker_window, breaker_pause, breaker_cap (us);
--                      window_at (us), good, bad: the attempts of this window; trips: how often it opened in a row;
--                      probe: the job that tries; opened, gone (ms): since when it is open, or disabled as gone
-- An attempt that fails while the breaker is open began before it opened, and is given back unspent.

local BREAKER = { 'breaker_ratio', 'breaker_window', 'breaker_pause', 'breaker_cap', 'window_at', 'good', 'bad', 'trips' }
local breakers -- target -> its fields; `changed`: to be written
at_begin(function() breakers = {} end)

local function breaker_of(t)
  local b = breakers[t.name]
  if not b then
    local v = call('HMGET', P .. 'fb:' .. t.name, 'probe', 'opened', unpack(BREAKER))
    b = { probe = v[1], opened = v[2] }
    for i = 1, #BREAKER do b[BREAKER[i]] = tonumber(v[i + 2] or 0) end
    breakers[t.name] = b
  end
  return b
end

-- A job that tells the configured target of what became of another one; none if no target is configured for it.
local function notice(kind, target, cause_id, facts)
  local wanted = call('HGET', P .. 'conf', 'notices')
  if not wanted or wanted == '' then return end
  local to, lane, most, place = match(wanted, '^([^|]*)|([^|]*)|(%d+)|(%x*)$')
  local new = derived_id(cause_id, kind .. ' ' .. target .. ' ' .. text(now_us),
    place ~= '' and place or sub(cause_id, 35, 36))
  local payload = '{"type":"' .. kind .. '","at_ms":' .. NOW .. ',"data":{"target":"' .. target .. '"' .. facts .. '}}'
  if is_elsewhere(new) then
    post(new, { new, lane, to, '', 0, 0, 0, tonumber(most), '', '', '', 0, '\n' .. payload })
    return
  end
  local rank = text(100 * SPAN + new_seq())
  call('SET', P .. 'b:' .. new, facts_of({ flags = '', target = to, lane = lane, expires = '', callback = '', max = most,
    rank = rank, created = NOW, run_at = '', key = '' }) .. '\n\n' .. payload)
  make_ready(new, lane, to, '', rank, false)
  woken = true
  bump('submitted', lane, to)
  if followed then tell('accepted', new, lane, to) end
end

local function set_open_until(t, at)
  call('HSET', P .. 'ft:' .. t.name, 'open_until', text(at))
  t.open_until = at
  touch_target(t)
end

local function trip(t, b, id, error)
  b.trips = b.trips + 1
  local pause = math.min(b.breaker_cap, b.breaker_pause * 2 ^ math.min(b.trips - 1, 30))
  set_open_until(t, now_us + pause)
  if b.trips == 1 then
    b.opened = NOW
    notice('target.disabled', t.name, id, ',"cause":"breaker","attempts":' .. (b.good + b.bad) .. ',"failures":' .. b.bad
      .. (error ~= '' and (',"error":' .. error) or ''))
  end
  b.good, b.bad, b.window_at, b.changed = 0, 0, 0, true
end

local function close(t, b, id)
  set_open_until(t, 0)
  notice('target.recovered', t.name, id, ',"cause":"breaker","disabled_ms":' .. (b.opened or NOW))
  b.trips, b.good, b.bad, b.window_at, b.opened, b.changed = 0, 0, 0, 0, false, true
end

local function count_attempt(t, b, id, failed, error)
  if now_us >= b.window_at + b.breaker_window then b.window_at, b.good, b.bad = now_us, 0, 0 end
  b.changed = true
  if not failed then
    b.good = b.good + 1
    return
  end
  b.bad = b.bad + 1
  if b.good + b.bad >= t.breaker and b.bad * 100 >= b.breaker_ratio * (b.good + b.bad) then trip(t, b, id, error) end
end

-- Does what becomes of an attempt matter to the target's breaker?
local function is_judged(target)
  local t = target_node(target)
  return t and t.breaker > 0
end

-- An attempt of this target's job has ended well or has failed. True if a failure is not to be spent.
local function judge(target, id, failed, error)
  local t = target_node(target)
  if not t or t.breaker == 0 then return false end
  if t.open_until > now_us then return failed end
  local b = breaker_of(t)
  if t.open_until == 0 then
    count_attempt(t, b, id, failed, error)
    return false
  end
  if id ~= b.probe then return failed end
  if failed then trip(t, b, id, error) else close(t, b, id) end
  return false
end

-- The target is gone (410): its jobs wait until it is enabled.
local function disable(target, id, error)
  local t = target_node(target)
  if not t or t.paused == 2 then return end
  call('HSET', P .. 'ft:' .. target, 'paused', 2)
  call('HSET', P .. 'fb:' .. target, 'gone', NOW)
  t.paused = 2
  touch_target(t)
  notice('target.disabled', target, id, ',"cause":"gone"' .. (error ~= '' and (',"error":' .. error) or ''))
end

-- Writes what changed of the breakers.
local function flush_breakers()
  for name, b in pairs(breakers) do
    if b.changed then
      local key = P .. 'fb:' .. name
      call('HSET', key, 'window_at', text(b.window_at), 'good', b.good, 'bad', b.bad, 'trips', b.trips)
      if b.opened then call('HSET', key, 'opened', b.opened) else call('HDEL', key, 'opened', 'probe') end
    end
  end
end
