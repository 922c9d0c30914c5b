-- Checks that the data is of this schema and partition count, claims an empty partition for it, and remembers every
-- lane ever used, so that a lane taken out of the configuration still drains.
--
-- KEYS  1 prefix
-- ARGV  1 partitions, 2 a signing key to keep if there is none yet (or ''), 3 dead jobs kept of each target (or '': as
--       it is), 4 depth caps as `lane=jobs,…`, each lane at most once (or '': as they are; `-`: none), 5… lanes
-- Returns  1 schema found, 2 partitions found, 3 the installation's signing key (or '')
if not whole(ARGV[1], 1) or #ARGV < 5 then return redis.error_reply('ERR configure: partitions key dead caps lanes') end
if ARGV[3] ~= '' and not whole(ARGV[3], 0) then return redis.error_reply('ERR configure: dead is no number') end
-- What waits in a lane as a whole is counted only as long as that has a cap.
local function count_capped()
  local sums, whole_lanes = count_waiting()
  call_many('HDEL', P .. 'waiting', whole_lanes)
  for lane in string.gmatch(ARGV[4], '([^,]+)=%d+') do
    if sums[lane] then call('HSET', P .. 'waiting', lane, sums[lane]) end
  end
end

local conf = P .. 'conf' -- the name shadows what the prelude read, which may be of before
-- The schema is the newest version's that was ever here: older ones do not start any more, and those that run go on
-- beside it. `min_writer` is what a version must know to write: it follows OLDEST, and stops the others at once.
local OLDEST = 1
if tonumber(call('HGET', conf, 'schema') or 0) < SCHEMA then call('HSET', conf, 'schema', SCHEMA) end
if tonumber(call('HGET', conf, 'min_writer') or 0) < OLDEST then call('HSET', conf, 'min_writer', OLDEST) end
-- targets that have flows, as flow_control knows them; of data that was here before it is not known
if call('HSETNX', conf, 'partitions', ARGV[1]) == 1 then call('HSET', conf, 'flows', ',') end
local lanes = call('HGET', conf, 'lanes') or ''
if ARGV[2] ~= '' then call('HSETNX', conf, 'signing_key', ARGV[2]) end
for i = 5, #ARGV do
  if not string.find(',' .. lanes .. ',', ',' .. ARGV[i] .. ',', 1, true) then
    lanes = lanes == '' and ARGV[i] or (lanes .. ',' .. ARGV[i])
  end
end
if ARGV[3] ~= '' then call('HSET', conf, 'dead_most', ARGV[3]) end
if ARGV[4] ~= '' then
  call('HSET', conf, 'lane_caps', ARGV[4])
  count_capped()
end
drop_gist()
call('HSET', conf, 'lanes', lanes) -- also what makes this script a probe that writes works
return { tonumber(call('HGET', conf, 'schema')), tonumber(call('HGET', conf, 'partitions')),
  call('HGET', conf, 'signing_key') or '' }
