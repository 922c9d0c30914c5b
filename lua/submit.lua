-- Takes jobs in: each gets its record, body, place (lane or due) and idempotency key, or is told which earlier
-- job it repeats. A repeat of the same job id is the first one again, so a lost reply may be resent. A job that lies in
-- another partition goes to the outbox, in the same step.
--
-- KEYS  1 prefix
-- ARGV  1 a MessagePack array of two: of each job in turn 6 values, id, key, idempotency hash (or ''), fingerprint, body (or which of
--       the arguments it is: a long one unpacked would be copied once more), and which of the terms; and of terms that jobs share in
--       turn 8 values, lane, target, priority (-100..100), delay ms, expires ms (0: never), max attempts, callback (events of s d c r,
--       attempts, @ partition : key; or ''), window ms of idempotency
--       2 durable, or '': leaves a mark even where every job is a repeat, so that waiting for what was written waits for
--       the first call's writes
--       3 and on: long bodies
-- Returns  MessagePack, per job that was not simply taken in 4: its number, verdict (accepted, duplicate, conflict, full), job id,
--       status (gone: its record is no more)
local JOB, TERMS = 6, 8
local type = type

local function is_callback(text)
  return match(text, '^[sdcr]*%d*$') or match(text, '^[sdcr]+%d*@%x%x:[^|\n]*$')
end

-- The terms of that number, read; or the error.
local function read_terms(values, number)
  local lane, target, priority, delay, expires, attempts, callback, window =
    unpack(values, TERMS * number - TERMS + 1, TERMS * number)
  if type(lane) ~= 'string' or type(target) ~= 'string' or type(callback) ~= 'string' then
    return nil, redis.error_reply('ERR submit: a value of terms ' .. number .. ' has the wrong type')
  end
  if find(lane, '[|\n]') or find(target, '[|\n]') or not is_callback(callback) then
    return nil, redis.error_reply('ERR submit: a name of terms ' .. number .. ' holds what would end it')
  end
  if not (whole(priority, -100) and priority <= 100 and whole(delay, 0) and whole(expires, 0) and whole(attempts, 1)
      and whole(window, 0)) then
    return nil, redis.error_reply('ERR submit: a number of terms ' .. number .. ' is out of range')
  end
  local terms = terms_of(lane, target, priority, delay, nil, expires, attempts, callback)
  terms.values, terms.window = { lane, target, priority, delay, expires, attempts, callback, window }, window
  return terms
end

-- Is every value of the jobs what it is to be? The error if one is not. A body that is an argument comes to its place.
local function fault_of(values, count, terms)
  local at = 0
  for i = 1, count do
    local key, hash, fingerprint, body, own =
      values[at + 2], values[at + 3], values[at + 4], values[at + 5], terms[values[at + 6]]
    if type(body) == 'number' and body > 2 then
      body = args[body]
      values[at + 5] = body
    end
    if type(values[at + 1]) ~= 'string' or type(body) ~= 'string' or not own
        or key ~= '' and type(key) ~= 'string' or fingerprint ~= '' and type(fingerprint) ~= 'string'
        or hash ~= '' and (type(hash) ~= 'string' or own.window < 1) then
      return redis.error_reply('ERR submit: a value of job ' .. i .. ' has the wrong type, or it has no such terms')
    end
    at = at + JOB
    if key ~= '' and find(key, '\n', 1, true) then
      return redis.error_reply('ERR submit: the key of job ' .. i .. ' holds what would end it')
    end
  end
end

-- The jobs' values, and terms by number; or the error.
local function read_batch()
  local ok, both = pcall(cmsgpack.unpack, args[1] or '')
  if not ok or type(both) ~= 'table' or #both ~= 2 or not is_flat(both[1], JOB) or not is_flat(both[2], TERMS) then
    return nil, redis.error_reply('ERR submit takes a batch of 6 values a job, and of 8 for terms')
  end
  local terms, fault = {}, nil
  for number = 1, #both[2] / TERMS do
    terms[number], fault = read_terms(both[2], number)
    if fault then return nil, fault end
  end
  fault = fault_of(both[1], #both[1] / JOB, terms)
  if fault then return nil, fault end
  return both[1], terms
end

local names -- keys of the bodies
-- How many of these jobs there are already.
local function count_known(values, count)
  names = {}
  local prefix = P .. 'b:'
  for i = 1, count do names[i] = prefix .. values[JOB * i - JOB + 1] end
  local there = 0
  for first = 1, count, CHUNK do
    there = there + call('EXISTS', unpack(names, first, math.min(first + CHUNK - 1, count)))
  end
  return there
end

local here -- status of the jobs of this batch that it has taken in
local kept -- idempotency hash -> what is stored under it, by this batch too

local function read_kept(values, count)
  local hashes = {}
  for i = 1, count do
    local hash = values[JOB * i - JOB + 3]
    if hash ~= '' then hashes[#hashes + 1] = hash end
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

return function()
  local values, all = read_batch()
  if not values then return all end
  local count = #values / JOB
  local there = count_known(values, count)
  here = {}
  read_kept(values, count)
  local out = {}
  local place = own_place()
  local seq
  local i = 1
  while i <= count do
    local id, key, hash, fingerprint, body, own = unpack(values, JOB * i - JOB + 1, JOB * i)
    local terms = all[own]
    local status = here[id] or there > 0 and status_of(id)
    local reply = status and { i, 'accepted', id, status } or hash ~= '' and repeated(i, hash, fingerprint)
    if reply then
      if reply[2] == 'duplicate' and reply[3] == id then reply[2] = 'accepted' end -- elsewhere, by a first call
    elseif sub(id, 35, 36) ~= place and is_elsewhere(id) then
      local lane, target, priority, delay, expires, attempts, callback, window = unpack(terms.values)
      post(id, { id, lane, target, key, priority, delay, expires, attempts, callback, hash, fingerprint, window, body })
      if hash ~= '' then keep(hash, id, fingerprint, window) end
    elseif terms.delay == 0 and terms.room.left <= 0 then
      reply = { i, 'full', id, '' }
    else
      if not seq then seq = call('INCRBY', P .. 'seq', count) - count end
      here[id] = accept(seq + i, id, names[i], terms, key, body)
      if hash ~= '' then
        keep(hash, id, fingerprint, terms.window)
      elseif there == 0 then
        i = accept_run(values, JOB, i + 1, count, names, terms, seq, place, here) - 1
      end
    end
    if reply then out[#out + 1] = reply end
    i = i + 1
  end
  local comes = next(arriving) or arrivals[1] -- for some of them it is time already
  place_accepted()
  if args[2] == 'durable' then call('SET', P .. 'mark', NOW) end
  if comes and count <= HANDED_MOST then hand_over() end
  commit()
  return cmsgpack.pack(out)
end
