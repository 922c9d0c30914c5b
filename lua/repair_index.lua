-- Finds entries of an index that do not belong there: jobs that are elsewhere by their record, jobs without a record,
-- references and timers of targets without flows; mends them if asked to.
--
-- KEYS  1 prefix
-- ARGV  1 mend (0 or 1), 2 index (such as lane:default, flow:<lane>:<target>:<key>, leases), then entries
-- Returns  MessagePack, per finding 3: word, entry, detail
local mend, index = ARGV[1] == '1', ARGV[2]
if not index or not mend and ARGV[1] ~= '0' then return redis.error_reply('ERR repair_index: mend index entry…') end

local function drop(entry)
  if mend then call('ZREM', P .. index, entry) end
end

local function belongs(id, job)
  local right = place_of(job)
  if index == right then return true end
  if job.status == 'dead' then return index == 'dead:' .. job.target end
  return index == earlier_place_of(job) and not call('ZSCORE', P .. right, id)
end

-- A job that has lost its record: one in a flow can still be run, for the flow's name tells its lane, target and key.
local function recover(id, score)
  local lane, target, key = string.match(index, '^flow:([^:]+):([^:]+):(.*)$')
  if not lane then
    drop(id)
    bury_lost(id, string.match(index, '^%a+:(.+)$') or some_lane(), LOST_TARGET,
      'its record was lost, its payload is kept')
    return
  end
  local job = { status = 'pending', lane = lane, target = target, key = key }
  call('HSET', P .. 'j:' .. id, 'status', 'pending', 'lane', lane, 'target', target, 'rank', text(tonumber(score)),
    'attempt', 0, 'max', LOST_MAX, 'created', created_of(id))
  if key ~= '' then call('HSET', P .. 'j:' .. id, 'key', key, 'more', 1) end
  if place_of(job) ~= index then
    drop(id)
    call('ZADD', P .. place_of(job), score, id)
  end
end

local function check_job(id)
  local job = read_job(id)
  if job then
    if not job.lacks and not belongs(id, job) then
      found('misplaced', id, index)
      drop(id)
    end
    return
  end
  local score = call('ZSCORE', P .. index, id)
  if not score then return end
  local over = string.find(index, '^d%a+') and index ~= 'due'
  if over or call('EXISTS', P .. 'b:' .. id) == 0 or call('EXISTS', P .. 'r:' .. id) == 1 then
    found('no_record', id, index)
    drop(id)
    if mend then
      if over and not string.find(index, ':', 1, true) then bump('evicted', some_lane(), LOST_TARGET) end
      call('UNLINK', P .. 'b:' .. id, P .. 'r:' .. id, P .. 'e:' .. id)
    end
  else
    found('record_lost', id, index)
    if mend then recover(id, score) end
  end
end

-- May a reference stand here? A lane refers to suspects and to targets with flows; `due` has the timers of both levels.
local function refers(entry)
  local target, key = string.match(entry, '^~([^:]+)(.*)$')
  if index == 'due' then return target and target_node(target) end
  return string.find(index, '^lane:') and (entry == SUSPECTS or target and key == '' and target_node(target))
end

for i = 3, #ARGV do
  local entry = ARGV[i]
  if entry ~= SUSPECTS and string.byte(entry) ~= 126 then
    check_job(entry)
  elseif not refers(entry) then
    found('reference_stray', entry, index)
    drop(entry)
  end
end
if mend then commit() end
return cmsgpack.pack(findings)
