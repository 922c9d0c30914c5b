-- Takes jobs in: each gets its record, body, place (lane or due) and idempotency key, or is told which earlier
-- job it repeats. A repeat of the same job id is the first one again, so a lost reply may be resent. A job that lies in
-- another partition goes to the outbox, in the same step.
--
-- KEYS  1 prefix
-- ARGV  1 a MessagePack array, of each job in turn 13 values: id, lane, target, key, priority (-100..100), delay ms, expires ms (0: never),
--       max attempts, callback (events of s d c r, attempts, @ partition : key; or ''), idempotency hash (or ''), fingerprint, window ms, body
--       2 durable, or nothing: leaves a mark even where every job is a repeat, so that waiting for what was written
--       waits for the first call's writes
-- Returns  MessagePack, per job 3: verdict (accepted, duplicate, conflict, full), job id, status (gone: its
--       record is no more)
local function texts(a, b, c, d, e, f, g, h)
  return type(a) == 'string' and type(b) == 'string' and type(c) == 'string' and type(d) == 'string'
    and type(e) == 'string' and type(f) == 'string' and type(g) == 'string' and type(h) == 'string'
end
local checked_lane, checked_target -- jobs of a batch mostly share them
local function are_names(lane, target, key)
  if lane ~= checked_lane or target ~= checked_target then
    if find(lane, '[|\n]') or find(target, '[|\n]') then return false end
    checked_lane, checked_target = lane, target
  end
  return key == '' or not find(key, '\n', 1, true)
end
local function is_callback(text)
  return match(text, '^[sdcr]*%d*$') or match(text, '^[sdcr]+%d*@%x%x:[^|\n]*$')
end

-- Whether every value is what it is to be; the error if one is not.
local function fault_of(values, count)
  for i = 1, count do
    local id, lane, target, key, priority, delay, expires, attempts, callback, hash, fingerprint, window, body =
      unpack(values, 13 * i - 12, 13 * i)
    if not texts(id, lane, target, key, callback, hash, fingerprint, body) then
      return redis.error_reply('ERR submit: a value of job ' .. i .. ' has the wrong type')
    end
    if not are_names(lane, target, key) or not is_callback(callback) then
      return redis.error_reply('ERR submit: a name of job ' .. i .. ' holds what would end it')
    end
    if not (whole(priority, -100) and priority <= 100 and whole(delay, 0) and whole(expires, 0) and whole(attempts, 1)
        and whole(window, hash == '' and 0 or 1)) then
      return redis.error_reply('ERR submit: a number of job ' .. i .. ' is out of range')
    end
  end
end

-- How many of these jobs there are already.
local function count_known(values, count)
  local keys = {}
  for i = 1, count do keys[i] = P .. 'b:' .. values[13 * i - 12] end
  local there = 0
  for first = 1, #keys, CHUNK do
    there = there + call('EXISTS', unpack(keys, first, math.min(first + CHUNK - 1, #keys)))
  end
  return there
end

local here -- status of the jobs of this batch that it has taken in
local kept -- idempotency hash -> what is stored under it, by this batch too

local function read_kept(values, count)
  local hashes = {}
  for i = 1, count do
    if values[13 * i - 3] ~= '' then hashes[#hashes + 1] = values[13 * i - 3] end
  end
  kept = {}
  for first = 1, #hashes, CHUNK do
    local last = math.min(first + CHUNK - 1, #hashes)
    local keys = {}
    for i = first, last do keys[#keys + 1] = P .. 'idem:' .. hashes[i] end
    local found = call('MGET', unpack(keys))
    for i = first, last do kept[hashes[i]] = found[i - first + 1] end
  end
end

local function keep(hash, id, fingerprint, window)
  if hash == '' then return end
  kept[hash] = id .. ' ' .. fingerprint
  call('SET', P .. 'idem:' .. hash, kept[hash], 'PX', window)
end

-- Where a job stood before this batch, or stands by it; nil if there is no such job.
local function was_there(id) return here[id] or status_of(id) end

-- An earlier job with this idempotency key, as its reply; nil if there is none. Where the fingerprint begins with `~`
-- (deliveries of a trigger) a dead one does not count: a provider that sends again wants it done.
local function repeated(hash, fingerprint)
  local known = kept[hash]
  if not known then return nil end
  local id, first = match(known, '^(%S+) (.*)$')
  local status = was_there(id) or 'gone'
  if status == 'dead' and string.byte(fingerprint) == 126 then return nil end
  return { first == fingerprint and 'duplicate' or 'conflict', id, status }
end

return function()
  local values = flat(1, 13)
  if not values then return redis.error_reply('ERR submit takes a batch of 13 values a job') end
  local count = #values / 13
  local fault = fault_of(values, count)
  if fault then return fault end
  local there = count_known(values, count)
  here = {}
  read_kept(values, count)
  local out = {}
  local seq
  for i = 1, count do
    local id, lane, target, key, priority, delay, expires, max_attempts, callback, hash, fingerprint, window, body =
      unpack(values, 13 * i - 12, 13 * i)
    local status = here[id] or there > 0 and status_of(id)
    local reply = status and { 'accepted', id, status } or repeated(hash, fingerprint)
    if reply and reply[1] == 'duplicate' and reply[2] == id then reply[1] = 'accepted' end -- elsewhere, by a first call
    if not reply and is_elsewhere(id) then
      post(id, { unpack(values, 13 * i - 12, 13 * i) })
      keep(hash, id, fingerprint, window)
      reply = { 'accepted', id, delay > 0 and 'scheduled' or 'pending' }
    end
    if not reply and delay == 0 and room(lane) <= 0 then reply = { 'full', id, '' } end
    if not reply then
      if not seq then seq = call('INCRBY', P .. 'seq', count) - count end
      status = accept(seq + i, id, lane, target, key, priority, delay, nil, expires, max_attempts, callback, body)
      here[id] = status
      keep(hash, id, fingerprint, window)
      reply = { 'accepted', id, status }
    end
    out[i] = reply
  end
  place_accepted()
  if args[2] == 'durable' then call('SET', P .. 'mark', NOW) end
  commit()
  return cmsgpack.pack(out)
end
