-- Takes jobs in: each gets its record, body, place (lane or due) and idempotency key, or is told which earlier
-- job it repeats. A repeat of the same job id is the first one again, so a lost reply may be resent. A job that lies in
-- another partition goes to the outbox, in the same step.
--
-- KEYS  1 prefix
-- ARGV  1 a MessagePack array, of each job in turn 6 values: id, key, idempotency hash (or ''), fingerprint, body (or which of
--       the arguments it is: a long one unpacked would be copied once more), and which of the terms
--       2 another one, of terms that jobs share in turn 8 values: lane, target, priority (-100..100), delay ms, expires ms (0: never),
--       max attempts, callback (events of s d c r, attempts, @ partition : key; or ''), window ms of idempotency
--       3 durable, or '': leaves a mark even where every job is a repeat, so that waiting for what was written waits for
--       the first call's writes
--       4 and on: long bodies
-- Returns  MessagePack, per job that was not simply taken in 4: its number, verdict (accepted, duplicate, conflict, full), job id,
--       status (gone: its record is no more)
local JOB, TERMS = 6, 8
local NOTHING = cmsgpack.pack(NONE)
local type = type

-- Is every value of the terms of that number what it is to be? The error if one is not.
local function fault_of_terms(values, number)
  local lane, target, priority, delay, expires, attempts, callback, window =
    unpack(values, TERMS * number - TERMS + 1, TERMS * number)
  if type(lane) ~= 'string' or type(target) ~= 'string' or type(callback) ~= 'string' then
    return redis.error_reply('ERR submit: a value of terms ' .. number .. ' has the wrong type')
  end
  if find(lane, '[|\n]') or find(target, '[|\n]') or not is_callback(callback) then
    return redis.error_reply('ERR submit: a name of terms ' .. number .. ' holds what would end it')
  end
  if not (whole(priority, -100) and priority <= 100 and whole(delay, 0) and whole(expires, 0) and whole(attempts, 1)
      and whole(window, 0)) then
    return redis.error_reply('ERR submit: a number of terms ' .. number .. ' is out of range')
  end
end

-- What jobs had in common in the call before, which mostly is what they have in this one.
local terms_text, terms_values, terms_made
-- The terms, by number; or the error.
local function read_terms()
  if not terms_text or args[2] ~= terms_text then
    terms_text = nil
    local values = flat(2, TERMS)
    if not values then return nil, redis.error_reply('ERR submit takes 8 values for terms') end
    terms_values, terms_made = values, {}
    for number = 1, #values / TERMS do
      local fault = fault_of_terms(values, number)
      if fault then return nil, fault end
      local lane, target, priority, delay, expires, attempts, callback, window =
        unpack(values, TERMS * number - TERMS + 1, TERMS * number)
      terms_made[number] = terms_of(lane, target, priority, delay, nil, expires, attempts, callback)
      terms_made[number].window = window
    end
    terms_text = args[2]
  end
  for number = 1, #terms_made do renew(terms_made[number]) end
  return terms_made
end

local SOUND_MOST = 1000
local sound, sound_n = {}, 0 -- keys that were found to be as they must be, in calls before too; how many

-- Is every value of the jobs what it is to be? The error if one is not. A body that is an argument comes to its place.
local function fault_of(values, count, terms)
  local at = 0
  for i = 1, count do
    local key, hash, fingerprint, body, own =
      values[at + 2], values[at + 3], values[at + 4], values[at + 5], terms[values[at + 6]]
    if type(body) == 'number' and body > 3 then
      body = args[body]
      values[at + 5] = body
    end
    if type(values[at + 1]) ~= 'string' or type(body) ~= 'string' or not own
        or key ~= '' and not sound[key] and type(key) ~= 'string' or fingerprint ~= '' and type(fingerprint) ~= 'string'
        or hash ~= '' and (type(hash) ~= 'string' or own.window < 1) then
      return redis.error_reply('ERR submit: a value of job ' .. i .. ' has the wrong type, or it has no such terms')
    end
    at = at + JOB
    if key ~= '' and not sound[key] then
      if find(key, '\n', 1, true) then
        return redis.error_reply('ERR submit: the key of job ' .. i .. ' holds what would end it')
      end
      if sound_n == SOUND_MOST then sound, sound_n = {}, 0 end
      sound[key], sound_n = true, sound_n + 1
    end
  end
end

local names -- keys of the bodies
local function name_bodies(values, count)
  local prefix = P .. 'b:'
  names = {}
  for i = 1, count do names[i] = prefix .. values[JOB * i - JOB + 1] end
end

-- How many of these jobs there are already.
local function count_known(count)
  local there = 0
  for first = 1, count, CHUNK do
    there = there + call('EXISTS', unpack(names, first, math.min(first + CHUNK - 1, count)))
  end
  return there
end

local here -- status of the jobs of this batch that it has taken in
local kept -- idempotency hash -> what is stored under it, by this batch too

-- Reads that; is there any idempotency key?
local function read_kept(values, count)
  local hashes
  for i = JOB * count - JOB + 3, 3, -JOB do
    local hash = values[i]
    if hash ~= '' then
      hashes = hashes or {}
      hashes[#hashes + 1] = hash
    end
  end
  if not hashes then return false end
  kept = {}
  for first = 1, #hashes, CHUNK do
    local last = math.min(first + CHUNK - 1, #hashes)
    local keys = {}
    for i = first, last do keys[#keys + 1] = P .. 'idem:' .. hashes[i] end
    local found = call('MGET', unpack(keys))
    for i = first, last do kept[hashes[i]] = found[i - first + 1] end
  end
  return true
end

local function keep(hash, id, fingerprint, window)
  kept[hash] = id .. ' ' .. fingerprint
  call('SET', P .. 'idem:' .. hash, kept[hash], 'PX', window)
end

-- Where a job stood before this batch, or stands by it; nil if there is no such job.
local function was_there(id) return here[id] or status_of(id) end

-- An earlier job with this idempotency key, as its reply; nil if there is none. Where the fingerprint begins with `~`
-- (deliveries of a trigger) a dead one does not count: a provider that sends again wants it done.
local function repeated(number, hash, fingerprint)
  local known = kept[hash]
  if not known then return nil end
  local id, first = match(known, '^(%S+) (.*)$')
  local status = was_there(id) or 'gone'
  if status == 'dead' and string.byte(fingerprint) == 126 then return nil end
  return { number, first == fingerprint and 'duplicate' or 'conflict', id, status }
end

local seq -- of the last job before this batch; nil: none of it needed one yet

-- Takes the jobs in, of which so many are there already; the answers to those that are not simply taken in.
local function take_in(values, count, all, there)
  local out
  local place = own_place()
  local i = 1
  here = {}
  while i <= count do
    local id, key, hash, fingerprint, body, own = unpack(values, JOB * i - JOB + 1, JOB * i)
    local terms = all[own]
    local status = here[id] or there > 0 and status_of(id)
    local reply = status and { i, 'accepted', id, status } or hash ~= '' and repeated(i, hash, fingerprint)
    if reply then
      if reply[2] == 'duplicate' and reply[3] == id then reply[2] = 'accepted' end -- elsewhere, by a first call
    elseif sub(id, 35, 36) ~= place and is_elsewhere(id) then
      local lane, target, priority, delay, expires, attempts, callback, window =
        unpack(terms_values, TERMS * own - TERMS + 1, TERMS * own)
      post(id, { id, lane, target, key, priority, delay, expires, attempts, callback, hash, fingerprint, window, body })
      if hash ~= '' then keep(hash, id, fingerprint, window) end
    elseif terms.delay == 0 and terms.room.left <= 0 then
      reply = { i, 'full', id, '' }
    else
      if not seq then seq = call('INCRBY', K.seq, count) - count end
      local stands = accept(seq + i, id, names[i], terms, key, body)
      if count > 1 then here[id] = stands end
      if hash ~= '' then
        keep(hash, id, fingerprint, terms.window)
      elseif there == 0 then
        i = accept_run(values, JOB, i + 1, count, names, terms, seq, place, here) - 1
      end
    end
    if reply then
      out = out or {}
      out[#out + 1] = reply
    end
    i = i + 1
  end
  return out
end

return function()
  local values = flat(1, JOB)
  if not values then return redis.error_reply('ERR submit takes a batch of 6 values a job') end
  local terms, fault = read_terms()
  local count = #values / JOB
  fault = fault or fault_of(values, count, terms)
  if fault then return fault end
  name_bodies(values, count)
  seq = nil
  -- mostly all are new, which their writing itself tells; but a lane that is full must not refuse one that is there
  local sure = read_kept(values, count) or followed or rooms or 2 * count > CHUNK
  local out = take_in(values, count, terms, sure and count_known(count) or 0)
  if not sure and not write_new() then
    if seq then call('DECRBY', K.seq, count) end
    seq = nil
    forget_accepted()
    out = take_in(values, count, read_terms(), count_known(count))
  end
  local comes = used and (next(arriving) or arrivals) -- for some of them it is time already
  if args[3] == 'durable' then call('SET', P .. 'mark', NOW) end
  if comes and count <= HANDED_MOST then hand_over() else place_accepted() end
  commit()
  return out and cmsgpack.pack(out) or NOTHING
end
