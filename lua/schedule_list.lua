-- Schedules as they stand: one by its name, or a page by name.
--
-- KEYS  1 prefix
-- ARGV  1 name ('': a page), 2 the page comes after this name ('': the first), 3 at most
-- Returns  1 now ms, then per schedule 14: name, definition, payload ('' in a page), revision, slot ms (''
--       while paused), ms at which it fires, created ms, updated ms, last slot ms, last job id, its status, slots fired,
--       missed, overlapped ('': none)
local name, after, most = ARGV[1], ARGV[2], whole(ARGV[3], 1)
if not (name and after and most) then return redis.error_reply('ERR schedule_list: name after at_most') end
local names = { name }
if name == '' then
  local from = after == '' and '-' or '(' .. after
  names = call('ZRANGE', P .. 'schedule_names', from, '+', 'BYLEX', 'LIMIT', 0, most)
end
local out = { now_ms }
local function add(value) out[#out + 1] = value or '' end
for i = 1, #names do
  local v = call('HMGET', P .. 'schedule:' .. names[i], 'definition', 'revision', 'slot', 'created', 'updated', 'last',
    'job')
  if v[1] then
    add(names[i])
    add(v[1])
    add(name ~= '' and call('HGET', P .. 'schedule:' .. name, 'payload'))
    add(v[2])
    add(v[3])
    add(call('ZSCORE', P .. 'schedules', names[i]))
    for at = 4, 7 do add(v[at]) end
    add(v[7] and status_of(v[7]))
    local counts = call('HMGET', P .. 'stats', 'schedule_fired:' .. names[i], 'schedule_missed:' .. names[i],
      'schedule_overlapped:' .. names[i])
    for at = 1, 3 do add(counts[at]) end
  end
end
return out
