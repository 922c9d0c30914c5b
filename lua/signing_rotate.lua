-- Makes a new signing key the installation's; the one until now signs and is published as well for some time.
--
-- KEYS  1 prefix (control partition)
-- ARGV  1 the new key, 2 ms that the present one stays, 3 keys that stay at most
-- Returns  1, also where the new key is the present one already
local new, stays, most = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
if #ARGV ~= 3 or new == '' or not (stays and most) then
  return redis.error_reply('ERR signing_rotate: key stays_ms most')
end
local v = call('HMGET', P .. 'conf', 'signing_key', 'signing_keys_old')
if v[1] == new then return 1 end
local old = {}
if v[1] and stays > 0 then old[1] = text(now_ms + stays) .. ' ' .. v[1] end
for till, key in string.gmatch(v[2] or '', '(%d+) (%S+)') do
  if tonumber(till) > now_ms and #old < most then old[#old + 1] = till .. ' ' .. key end
end
call('HSET', P .. 'conf', 'signing_key', new, 'signing_keys_old', table.concat(old, ' '))
call('HINCRBY', P .. 'targets', '~revision', 1)
return 1
