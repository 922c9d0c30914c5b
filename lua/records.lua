-- Prepended after the prelude: a job's record, kept by how often it changes.
--
-- b:<id> begins with the job's facts, one line, as it was submitted. Where it stands is one line in the HASH `state`; a
-- job that has waited for its first attempt ever since has none there, so that a claim reads one key and a settle one
-- field, whatever their batch. What few jobs have at all (stalls cancel reason replay callback_id progress) is in the
-- HASH j:<id>.
--   facts  flags|target|lane|expires|callback|max|created|run_at|key|rank
--   state  status|token|attempt|started|previous|updated|facts
-- The facts of a line are those that hold now. Where they are those that the job was submitted with, and its flags none or
-- k, a claim writes them short: `flags|target|lane|` and, of a job with a key, `=key`, which no other fact could be that
-- stands there. So the jobs of a claim share one line, as one text, and what became of it. One that was submitted for
-- later and has become due has `=rank` for its facts: those that it was submitted with but for its rank. While it waits
-- that is where it stands; started, its rank is again the one of before, so that it comes first if it is given back.
-- Times and delays are in ms, '' where there is none. Flags: c it has a callback, k a key, x it expires, s it is a
-- suspect, q its cancellation is asked for, w its work goes on elsewhere, o its facts are its own: no longer those that it was submitted with.

local FACTS = '^(%a*)|([^|]*)|([^|]*)|(%d*)|([^|]*)|(%d+)|(%d+)|(%d*)|(.*)|(%d+)$'
local STATE = '^(%a+)|([^|]*)|(%d+)|(%d*)|(%d*)|(%d*)|(.*)$'
local WAITS = 'pending||0||||=' -- the line of a job that was submitted for later and has become due, up to its rank
local HEAD_BYTES = 1024 -- longer than most facts are
local match, sub, find = string.match, string.sub, string.find

local lines              -- id -> its line in `state` as it stands now; false: it has none
local written, written_n -- ids and lines that this script writes, in turn
local forgotten, dropped -- keys of jobs that this script removes, and their ids; nil: none
at_begin(function()
  lines, written, written_n, forgotten, dropped = {}, { nil, nil }, 0, nil, nil -- room for the first one
end)

-- Reads the lines of many jobs at once: of all, or of the first `count`; from the first on, or another place.
local function read_lines(ids, count, from)
  count = count or #ids
  for first = from or 1, count, CHUNK do
    local found = call('HMGET', K.state, unpack(ids, first, math.min(first + CHUNK - 1, count)))
    for i = 1, #found do
      local id = ids[first + i - 1]
      if lines[id] == nil then lines[id] = found[i] end
    end
  end
end

local function line_of(id)
  local line = lines[id]
  if line == nil then
    line = call('HGET', P .. 'state', id)
    lines[id] = line
  end
  return line
end

local function write_line(id, line)
  lines[id] = line
  written[written_n + 1] = id
  written[written_n + 2] = line
  written_n = written_n + 2
end

-- The first `count` lines of a body, with their ends; '' if there is no such job.
local function head_of(id, count)
  local key = P .. 'b:' .. id
  local head = call('GETRANGE', key, 0, HEAD_BYTES - 1)
  local at = 0
  for _ = 1, count do
    local to = find(head, '\n', at + 1, true)
    if not to and #head == HEAD_BYTES then
      head = call('GET', key)
      to = find(head, '\n', at + 1, true)
    end
    at = to or #head
  end
  return sub(head, 1, at)
end

-- Facts as well as short ones tell them, of a running job whose body was lost. It cannot be run again.
local function facts_of_short(facts, started)
  local head, key = match(facts, '^(k?|[^|]+|[^|]+|)=?(.*)$')
  return head and head .. '||1|' .. started .. '||' .. key .. '|' .. text(100 * SPAN) or ''
end

-- A job as a table of the names above, all texts but `attempt`; nil if there is no such job.
local function load(id)
  local job = { status = 'pending', token = '', attempt = 0, started = '', previous = '', updated = '' }
  local line = line_of(id)
  local facts, rank
  if line then
    local attempt
    job.status, job.token, attempt, job.started, job.previous, job.updated, facts = match(line, STATE)
    job.attempt = tonumber(attempt)
    rank = facts and match(facts, '^=(%d+)$')
  end
  if not facts or not find(facts, FACTS) then
    local own = sub(head_of(id, 1), 1, -2)
    facts = own == '' and job.status == 'running' and facts_of_short(facts, job.started) or own
  end
  if facts == '' then return nil end
  job.flags, job.target, job.lane, job.expires, job.callback, job.max, job.created, job.run_at, job.key, job.rank =
    match(facts, FACTS)
  if rank then job.flags, job.rank = job.flags .. 'o', rank end
  return job.target and job
end

local function facts_of(job)
  return job.flags .. '|' .. job.target .. '|' .. job.lane .. '|' .. job.expires .. '|' .. job.callback .. '|'
    .. job.max .. '|' .. job.created .. '|' .. job.run_at .. '|' .. job.key .. '|' .. job.rank
end

-- Writes what load() gave and the script changed.
local function save(id, job)
  write_line(id, job.status .. '|' .. job.token .. '|' .. job.attempt .. '|' .. job.started .. '|' .. job.previous .. '|'
    .. job.updated .. '|' .. facts_of(job))
end

local function has_flag(job, flag) return find(job.flags, flag, 1, true) and true or false end
local function add_flag(job, flag)
  if not has_flag(job, flag) then job.flags = job.flags .. flag end
end
local function drop_flags(job, flags) job.flags = string.gsub(job.flags, '[' .. flags .. ']', '') end

-- Where a job stands; nil if there is no such job.
local function status_of(id)
  local line = line_of(id)
  if line then return match(line, '^%a+') end
  return call('EXISTS', P .. 'b:' .. id) == 1 and 'pending' or nil
end

-- Does this token hold the job? By its line alone, so that a batch is read at once.
local function is_held(id, token)
  local line = lines[id]
  return line and match(line, '^running|([^|]*)|') == token
end

-- Removes all that is kept of a finished job, but its place in `dead` or `done`.
local function forget(id)
  local status, target, lane = match(line_of(id) or '', '^(%a+)|[^|]*|%d+|%d*|%d*|%d*|%a*|([^|]*)|([^|]*)')
  if status then bump('evicted', lane, target) end
  if status == 'dead' then
    call('ZREM', P .. 'dead:' .. target, id)
    stand('dead', lane, -1)
  end
  lines[id] = false
  if not dropped then dropped, forgotten = {}, {} end
  dropped[#dropped + 1] = id
  for _, kind in ipairs({ 'j:', 'b:', 'r:', 'e:' }) do forgotten[#forgotten + 1] = P .. kind .. id end
end

-- Writes the lines that changed, and removes what was forgotten.
local function flush_records()
  if written_n > 0 then
    call_many('HSET', K.state, written)
    written, written_n = nil, 0
  end
  if not dropped then return end
  call_many('HDEL', P .. 'state', dropped)
  for first = 1, #forgotten, CHUNK do
    call('UNLINK', unpack(forgotten, first, math.min(first + CHUNK - 1, #forgotten)))
  end
  dropped, forgotten = nil, nil
end
