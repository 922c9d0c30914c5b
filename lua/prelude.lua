-- Prepended to every script: begin() with the clock, the keyspace, and the few steps that several transitions share.
-- After it come records.lua (what is kept of a job), limits.lua (what may run), flows.lua (where jobs with limits wait),
-- endings.lua (how a job ends), and what only a few scripts share.
--
-- What a script has defined may be called again and again (gateway/store/scripts.py), so what belongs to one call alone is
-- set in begin() and begin_anew(), or anew by what at_begin() is given.
--
-- KEYS[1] is the partition's prefix, `gw:{namespace:partition}:`; every key is that prefix and one of
--   b:<id>        STRING  the job's facts as one line (records.lua), options as one JSON line, the payload's bytes
--   state         HASH    where each job stands, one line by id (records.lua); `~` is none, and keeps it a table (register.lua)
--   j:<id>        HASH    what few jobs have: stalls cancel reason replay callback_id progress parked
--   r:<id>        STRING  result, JSON        e:<id> STRING the attempt log, a JSON object a line
--   lane:<lane>   ZSET    pending ids by rank; the reference `!` at the rank of the lane's first suspect; a reference
--                         `~<target>` for each target with flows (limits.lua and flows.lua have their keys)
--   suspect:<lane> ZSET   pending suspects by rank: a dispatcher runs at most one of them at a time
--   due           ZSET    scheduled and retrying ids, and timers of flows, by due time in us
--   leases        ZSET    running ids by lease deadline in ms
--   dead, done    ZSET    finished ids by time of finish in ms     dead:<target> ZSET the dead of one target
--   schedules     ZSET    schedules that wait for a slot, by when it fires in ms     schedule_names ZSET all of them
--   targets       HASH    registered targets by name: when they changed, when they were made, their table (JSON);
--                         `~revision` moves with every change (control partition)
--   schedule:<name> HASH  definition payload revision timing source slot created updated last job (docs/schedules.md)
--   idem:<hash>   STRING  job id, a space, fingerprint
--   outbox        ZSET    ids of jobs that belong to other partitions, by when they are to be handed over in ms
--   o:<id>        STRING  MessagePack: when it was submitted in ms, and the submit
--   mark          STRING  when something was last to be durable, in ms
--   seq           STRING  rank sequence       stats, conf HASH counters; schema, lanes, pauses, epoch (register.lua)
--   gist          STRING  what every call asks of conf, a line each; missing since one of these fields changed
--   counted       SET     targets with counters of their own
--   waiting       HASH    pending jobs by lane:target, and by lane where that has a cap
--   states        HASH    scheduled, retrying and dead jobs by state:lane
--   dispatcher:<id> HASH  last claim: nonce, ids, and nonce2, ids2 of the one beside it; seen: its last heartbeat in ms; idle: `0` if it is not in `idle`
--   standby:<id>  STRING  MessagePack: the claim that a submit may make in a dispatcher's place (handover.lua)
--   dispatchers   ZSET    dispatchers by when their heartbeat runs out, in ms
--   beats         ZSET    dispatchers by when they last showed that their loops turn, in ms
--   idle          ZSET    dispatchers whose last claim came back short, those first that have left one, then the oldest first: since
--                         when in ms, less 2^45 for them
--   waiters       HASH    processes that wait for a job's end, by job id: names with commas
--   events        STREAM  what happened to jobs while somebody followed them (`followed_until`, in conf), the last few
--   replay:<id>   HASH    a bulk replay: what is asked for (control partition) and how far this partition is
--   replays       ZSET    bulk replays under way, by when they began in ms (control partition)
--   deliveries:<trigger> STREAM  its last deliveries      rejections:<trigger> STREAM  what did not verify
--   delivery:<trigger>:<id> STRING  a delivery's facts as one JSON line, then its body (all in the control partition)
--   triggers      HASH    triggers registered over the API, by name (control partition)
--
-- A token is `attempt:nonce`. It stays on the job after its settle, so that a repeated settle is known as such;
-- whatever takes a job away from its holder clears it.

local P, args -- the prefix, and the arguments
local K       -- K.x is the key x, joined once and not in each call
local call = redis.call
local floor, unpack = math.floor, unpack
local SCHEMA = 1
local SPAN = 35184372088832 -- 2^45: rank = (100 - priority) * SPAN + seq
local CHUNK = 500           -- unpack() fails near 8,000 values
local LOG_BYTES = 16384
local SUSPECTS = '!'
local NONE = {}
local KEYS_OF_PREFIX = { __index = function(names, name)
  names[name] = P .. name
  return names[name]
end }

local now_us, now_ms, NOW
local conf              -- the fields of GIST
local min_writer, followed_until -- of them, as numbers; 0: not said
local gist              -- the text that they were read from; nil: from the HASH
local gist_due          -- is that text to be written?
local LANES             -- every lane ever used, in the order in which they were first configured
local caps              -- lane -> how many pending jobs it takes in, where that is limited
local followed          -- does anybody follow events (GET /events)?
local woken             -- is there work that was not there before?
local posted            -- is there something new in the outbox?
local ended             -- ids of the jobs that this script ends, if anybody waits for any; nil: none
local awaited           -- does anybody? Nil until it is asked
local may_flow          -- target -> may it have flows? Nil: it is to be asked of each
local may_await         -- the same as conf knows it: false, or nil where it is to be asked
local events            -- nil: none

local format = string.format
-- What writes a whole number in full: `%d` does it in a tenth of the time, unless the server is one of 32 bits.
local WHOLE = format('%d', 2 ^ 52) == format('%.0f', 2 ^ 52) and '%d' or '%.0f'
-- A whole number as decimal text: tostring() would give 3.51843733234e+15. A score may be passed as a number.
local function text(number)
  return format(WHOLE, number)
end

local at_begins = {}
-- `reset` makes what belongs to one call anew: now, and at each call's begin.
local function at_begin(reset)
  at_begins[#at_begins + 1] = reset
  reset()
end

local MANY = '*'
local GIST = { 'min_writer', 'lanes', 'lanes_paused', 'lane_caps', 'epoch', 'followed_until', 'awaited', 'flows' }

local function take_conf(values)
  conf, min_writer, followed_until, LANES = values, tonumber(values[1] or 0), tonumber(values[6] or 0), {}
  if values[7] then may_await = nil else may_await = false end
  for lane in string.gmatch(conf[2] or '', '[^,]+') do LANES[#LANES + 1] = lane end
  caps, may_flow = {}, nil
  for lane, most in string.gmatch(conf[4] or '', '([^,]+)=(%d+)') do caps[lane] = tonumber(most) end
  if values[8] and values[8] ~= MANY then
    may_flow = {}
    for target in string.gmatch(values[8], '[^,]+') do may_flow[target] = true end
  end
end

-- Reads conf; `often`: by one text that is kept beside it, and mostly is that of the call before. Six fields of a HASH,
-- most of them absent, cost three times as much.
local function read_conf(often)
  local text = often and call('GET', K.gist)
  if text and text == gist then return end
  gist, gist_due = text or nil, often and not text
  local values = {}
  for value in string.gmatch(text or '', '([^\n]*)\n') do values[#values + 1] = value ~= '' and value end
  take_conf(text and values or call('HMGET', P .. 'conf', unpack(GIST)))
end

-- Writes the text anew, so that the next call finds it.
local function keep_gist()
  if not conf[1] then return end
  local values = {}
  for i = 1, #GIST do values[i] = conf[i] or '' end
  call('SET', P .. 'gist', table.concat(values, '\n') .. '\n')
  gist_due = false
end

-- One of the fields changes.
local function drop_gist() call('DEL', P .. 'gist') end

-- The call's time, from here on.
local function set_clock(us)
  now_us = us
  now_ms = (us - us % 1000) / 1000
  NOW = text(now_ms)
end

-- What belongs to one transition is as at its beginning; a call mostly is one.
local function begin_anew()
  woken, posted, ended, awaited, events = false, false, nil, may_await, nil
  for i = 1, #at_begins do at_begins[i]() end
end

-- A call begins; returns the error that it ends with, if it is not to go on. `often`: it is one of many.
local function begin(keys, arguments, often)
  if P ~= keys[1] then P, K = keys[1], setmetatable({}, KEYS_OF_PREFIX) end
  args = arguments
  local time = call('TIME')
  set_clock(time[1] * 1000000 + time[2])
  read_conf(often)
  if min_writer > SCHEMA then
    return redis.error_reply('GWSCHEMA the data needs a newer version of event-gateway than this one')
  end
  followed = followed_until > now_ms
  begin_anew()
end

local function lane_paused(lane) return conf[3] and string.find(conf[3], ',' .. lane .. ',', 1, true) end

-- call(command, key, ...) with the items of a flat list, in chunks that unpack() can take.
local function call_many(command, key, items)
  local count = #items
  if count > CHUNK then
    for first = 1, count, CHUNK do call(command, key, unpack(items, first, math.min(first + CHUNK - 1, count))) end
  elseif count > 0 then
    call(command, key, unpack(items))
  end
end

-- An argument or value as a whole number of at least `least`; nil if it is none, to be found before the first write.
local function whole(value, least)
  local number = tonumber(value)
  if number and number >= least and number < 9007199254740992 and number == floor(number) then return number end
end

-- The items of a batch: argument `at` is a MessagePack array of arrays of `width` values. One argument instead of
-- thousands spares both ends most of a call's cost. Nil if it is anything else.
local function batch(at, width)
  local ok, items = pcall(cmsgpack.unpack, args[at] or '')
  if not ok or type(items) ~= 'table' or (#items == 0 and next(items)) then return nil end
  for i = 1, #items do
    if type(items[i]) ~= 'table' or #items[i] ~= width then return nil end
  end
  return items
end

local function is_flat(items, width)
  return type(items) == 'table' and #items % width == 0 and (#items > 0 or not next(items))
end
-- The same for a batch whose values all stand in one array, which is a good deal faster to read.
local function flat(at, width)
  local ok, items = pcall(cmsgpack.unpack, args[at] or '')
  return ok and is_flat(items, width) and items or nil
end

-- `<lane>:<target>`; jobs of a batch mostly share it, and joining strings is what a short script spends its time on.
local last_lane, last_target, last_path
local function path_of(lane, target)
  if lane ~= last_lane or target ~= last_target then
    last_lane, last_target, last_path = lane, target, lane .. ':' .. target
  end
  return last_path
end

local bumps -- counter -> path -> how many, of all runs but the last; nil: there was none
local run_counter, run_lane, run_target, run_length -- the jobs of a batch mostly count alike
local function end_run()
  if not run_counter then return end
  local path = path_of(run_lane, run_target)
  bumps = bumps or {}
  local of = bumps[run_counter]
  if not of then of = {}; bumps[run_counter] = of end
  of[path] = (of[path] or 0) + run_length
  run_counter = nil
end
local function bump(counter, lane, target, n)
  if counter == run_counter and target == run_target and lane == run_lane then
    run_length = run_length + (n or 1)
  else
    end_run()
    run_counter, run_lane, run_target, run_length = counter, lane, target, n or 1
  end
end

local waits -- the same of jobs that wait, by path, and by lane where that has a cap
local waits_lane, waits_target, waits_n
local function end_waits()
  if not waits_lane then return end
  local path = path_of(waits_lane, waits_target)
  waits = waits or {}
  if caps[waits_lane] then waits[waits_lane] = (waits[waits_lane] or 0) + waits_n end
  waits[path] = (waits[path] or 0) + waits_n
  waits_lane = nil
end
-- Counts jobs that begin (n > 0) or cease to be pending in a lane.
local function waiting(lane, target, n)
  if target == waits_target and lane == waits_lane then
    waits_n = waits_n + n
  else
    end_waits()
    waits_lane, waits_target, waits_n = lane, target, n
  end
end

local COUNTED_STATES = { scheduled = true, retrying = true, dead = true }
local stands -- nil: none
-- Counts jobs that begin (n > 0) or cease to be in one of those states; of running jobs the counters tell, by what else
-- there is.
local function stand(state, lane, n)
  if not COUNTED_STATES[state] then return end
  local field = state .. ':' .. lane
  stands = stands or {}
  stands[field] = (stands[field] or 0) + n
end

local done, done_n -- times and ids of the jobs that ended well or were cancelled; the list is made by the first

local COUNTED_MOST = 200 -- targets with counters of their own; later ones share `_other`

-- Is there room for counters of this name, now or since before?
local function is_counted(name)
  return call('SISMEMBER', P .. 'counted', name) == 1
    or (call('SCARD', P .. 'counted') < COUNTED_MOST and call('SADD', P .. 'counted', name) == 1)
end

-- Adds to a counter of a target. Only where it is new it is asked whether there is room for it.
local function add_count(counter, path, n)
  if call('HINCRBY', K.stats, counter .. ':' .. path, n) > n then return end
  local lane, target = string.match(path, '^([^:]*):(.*)$')
  if is_counted(target) then return end
  call('HDEL', P .. 'stats', counter .. ':' .. path)
  call('HINCRBY', P .. 'stats', counter .. ':' .. lane .. ':_other', n)
end

local function add_waiting(field, n)
  if n ~= 0 and call('HINCRBY', K.waiting, field, n) == 0 then call('HDEL', K.waiting, field) end
end

-- Writes the counters, and the finished into their index. Where all jobs count alike there is nothing to add up.
local function flush_counters()
  if bumps then
    end_run()
    for counter, of in pairs(bumps) do
      for path, n in pairs(of) do add_count(counter, path, n) end
    end
    bumps = nil
  elseif run_counter then
    add_count(run_counter, path_of(run_lane, run_target), run_length)
    run_counter = nil
  end
  if waits then
    end_waits()
    for field, n in pairs(waits) do add_waiting(field, n) end
    waits = nil
  elseif waits_lane then
    if caps[waits_lane] then add_waiting(waits_lane, waits_n) end
    add_waiting(path_of(waits_lane, waits_target), waits_n)
    waits_lane = nil
  end
  if stands then
    for field, n in pairs(stands) do
      if n ~= 0 and call('HINCRBY', P .. 'states', field, n) == 0 then call('HDEL', P .. 'states', field) end
    end
    stands = nil
  end
  if done_n > 0 then
    call_many('ZADD', K.done, done)
    done_n = 0
  end
end

at_begin(function()
  bumps, waits, stands, done_n, run_counter, waits_lane = nil, nil, nil, 0, nil, nil
end)

-- Adds a line to a job's attempt log; the oldest lines go when it grows over LOG_BYTES.
local function log(id, line)
  local key = P .. 'e:' .. id
  if call('APPEND', key, line .. '\n') > LOG_BYTES then
    local all = call('GET', key)
    local cut = string.find(all, '\n', #all - LOG_BYTES * 3 / 4, true) or #all
    call('SET', key, string.sub(all, cut + 1))
  end
end

local function log_line(kind, attempt, rest)
  return '{"at":' .. NOW .. ',"type":"' .. kind .. '","attempt":' .. (attempt or 0) .. (rest or '') .. '}'
end

local last_prefix, here -- the partition that a prefix names
-- What stands for this partition at the end of a job's id.
local function own_place()
  if P ~= last_prefix then last_prefix, here = P, format('%02x', string.match(P, ':(%d+)}:$')) end
  return here
end
-- Does a job of that id lie in another partition? The last byte of an id says in which.
local function is_elsewhere(id)
  local place = string.sub(id, 35, 36)
  return place ~= own_place() and string.lower(place) ~= here
end

-- Keeps a submit (as lua/forward.lua takes it) of a job that lies in another partition, until a dispatcher has handed it
-- over there (docs: redis).
local function post(id, values)
  call('SET', P .. 'o:' .. id, cmsgpack.pack({ now_ms, values }))
  call('ZADD', P .. 'outbox', now_ms, id)
  posted = true
end

-- Publishes a hint, and says to how many; one that this user may not publish goes to nobody, and no transition fails for it.
local function hint(channel, message)
  local reached = redis.pcall('SPUBLISH', P .. channel, message)
  return type(reached) == 'number' and reached or 0
end

-- Asks the dispatcher that was last alive to hand over what is in the outbox; a hint, behind which all of them look.
local function wake_forwarder()
  local last = call('ZRANGE', P .. 'dispatchers', -1, -1)[1]
  if last then hint('wake:' .. last, 'forward') end
end

-- What the log says of the attempt that a job is in, if it is in one: when it started, and where.
local function of_attempt(job)
  if job.status ~= 'running' then return '' end
  return ',"started":' .. job.started .. ',"dispatcher":"' .. (string.match(job.token, ':(.*)%.') or '') .. '"'
end

-- Wakes one dispatcher that has nothing to do; a hint, so one that is gone is passed over and none is no fault.
local function wake_one()
  for _ = 1, 4 do
    local idle = call('ZPOPMIN', K.idle)
    if not idle[1] then return end
    if hint('wake:' .. idle[1], '') > 0 then return end
  end
end

-- Notes that a job ended, for who may wait for that. While nobody waits for any, nor has of late, it costs nothing.
local function note_end(id)
  if awaited == nil then awaited = call('EXISTS', P .. 'waiters') == 1 end
  if not awaited then return end
  ended = ended or {}
  ended[#ended + 1] = id
end

-- Tells the processes that wait for jobs that these ended.
local function tell_waiters()
  for first = 1, #ended, CHUNK do
    local last = math.min(first + CHUNK - 1, #ended)
    local found = call('HMGET', P .. 'waiters', unpack(ended, first, last))
    for i = first, last do
      local names = found[i - first + 1]
      if names then
        for name in string.gmatch(names, '[^,]+') do hint('ended:' .. name, ended[i]) end
        call('HDEL', P .. 'waiters', ended[i])
      end
    end
  end
end

local EVENTS_AN_ENTRY = 100
local EVENT_ENTRIES = 2000 -- kept at most, and a node of the stream more

-- Notes an event for those who follow; call it only while `followed`, so that it costs nothing else. `note` is the
-- reason of a death, or the delay in ms of a retry. A line each, since that is cheaper than a table; no name has a space.
local function tell(kind, id, lane, target, attempt, note)
  events = events or {}
  events[#events + 1] = kind .. ' ' .. id .. ' ' .. lane .. ' ' .. target .. ' ' .. (attempt or 0) .. ' ' .. (note or '')
end

local function write_events()
  for first = 1, #events, EVENTS_AN_ENTRY do
    local lines = table.concat(events, '\n', first, math.min(first + EVENTS_AN_ENTRY - 1, #events))
    call('XADD', P .. 'events', 'MAXLEN', '~', EVENT_ENTRIES, '*', 'e', NOW .. '\n' .. lines)
  end
  call('PEXPIREAT', P .. 'events', conf[6])
end

-- The reference to a lane's suspects stands at the first one's rank, or is gone.
local function place_suspects(lane)
  local first = call('ZRANGE', P .. 'suspect:' .. lane, 0, 0, 'WITHSCORES')
  if first[1] then
    call('ZADD', P .. 'lane:' .. lane, first[2], SUSPECTS)
  else
    call('ZREM', P .. 'lane:' .. lane, SUSPECTS)
  end
end

local function new_seq()
  return call('INCR', P .. 'seq')
end

local function class_of(rank)
  return floor(tonumber(rank) / SPAN)
end
