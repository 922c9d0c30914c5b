-- Has a process told when jobs end, on its channel `ended:<process>`, or no more. Whoever subscribes first and registers
-- then misses nothing: the status that this returns is that of the same instant.
--
-- KEYS  1 prefix
-- ARGV  1 process, 2 wait or leave, then job ids
-- Returns  per id its status ('': no such job)
local process, leave = ARGV[1], ARGV[2] == 'leave'
if not leave and ARGV[2] ~= 'wait' then return redis.error_reply('ERR await_end: process wait|leave id…') end

local WAITERS_MOST = 16 -- of one job; the longest there goes, which has most likely died, and else looks by itself
local OVER = { succeeded = true, dead = true, cancelled = true }

local function register(id)
  local names = {}
  for name in string.gmatch(call('HGET', P .. 'waiters', id) or '', '[^,]+') do
    if name ~= process then names[#names + 1] = name end
  end
  if not leave then names[#names + 1] = process end
  if #names > WAITERS_MOST then table.remove(names, 1) end
  if #names > 0 then
    call('HSET', P .. 'waiters', id, table.concat(names, ','))
    if not conf[7] then
      conf[7] = '1'
      call('HSET', P .. 'conf', 'awaited', 1) -- until a beat finds that nobody waits any more
      drop_gist()
    end
  else
    call('HDEL', P .. 'waiters', id)
  end
end

local out = {}
for i = 3, #ARGV do
  local status = status_of(ARGV[i]) or ''
  if status ~= '' and not OVER[status] then register(ARGV[i]) end
  out[#out + 1] = status
end
return out
