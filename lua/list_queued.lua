-- One page of the jobs of a lane that wait in flows, in whatever state their keys and targets are: by target, key and
-- rank, from just after a job on, whether or not it still waits there.
--
-- KEYS  1 prefix
-- ARGV  1 lane, 2 queue (`<target>:<key>`; '': from the start), 3 score and 4 id in it, 5 target ('': all), 6 at most
-- Returns  per job 3: id, score, queue
local lane, queue, score, id, target, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], whole(ARGV[6], 1)
if not most then return redis.error_reply('ERR list_queued: lane queue score id target at_most') end

local out = {}
local function take(path, first)
  local found = call('ZRANGE', P .. 'flow:' .. lane .. ':' .. path, first, first + most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    out[#out + 1] = found[i]
    out[#out + 1] = found[i + 1]
    out[#out + 1] = path
  end
  most = most - #found / 2
end

local from, to = '-', '+'
if target ~= '' then from, to = '[' .. target .. ':', '(' .. target .. ';' end -- `;` comes next after `:`
if queue ~= '' then
  from = '(' .. queue
  local path = 'flow:' .. lane .. ':' .. queue
  if call('EXISTS', P .. path) == 1 then take(queue, rank_after(P .. path, score, id, false)) end
end
if most > 0 then
  for _, path in ipairs(call('ZRANGE', P .. 'flows:' .. lane, from, to, 'BYLEX', 'LIMIT', 0, most)) do
    if most <= 0 then break end
    take(path, 0)
  end
end
return out
