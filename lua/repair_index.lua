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

local function check_job(id)
  local job = read_job(id)
  if job then
    if not belongs(id, job) then
      found('misplaced', id, index)
      drop(id)
    end
    return
  end
  if not call('ZSCORE', P .. index, id) then return end
  found('no_record', id, index)
  drop(id)
  local over = find(index, '^d%a+$') and index ~= 'due'
  if mend and over then bump('evicted', some_lane(), LOST_TARGET) end
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
