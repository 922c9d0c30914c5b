-- Takes dead jobs away for good: record, payload, log and place in the dead-letter queue. What is not dead stays.
--
-- KEYS  1 prefix
-- ARGV  ids, up to 1,000
-- Returns  per id: purged, not_dead, or none (no such job)
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR purge: id…, up to 1000') end

local out = {}
for i = 1, #ARGV do
  local id = ARGV[i]
  local status = status_of(id)
  if not status then
    out[i] = 'none'
  elseif status ~= 'dead' then
    out[i] = 'not_dead'
  else
    call('ZREM', P .. 'dead', id)
    forget(id)
    out[i] = 'purged'
  end
end
commit()
return out
