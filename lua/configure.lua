-- Checks that the data is of this schema and partition count, claims an empty partition for it, and remembers every
-- lane ever used, so that a lane taken out of the configuration still drains.
--
-- KEYS  1 prefix
-- ARGV  1 partitions, 2 a signing key to keep if there is none yet (or ''), 3… lanes
-- Returns  1 schema found, 2 partitions found, 3 the installation's signing key (or '')
if not tonumber(ARGV[1]) or #ARGV < 3 then return redis.error_reply('ERR configure: partitions key lanes') end
local conf = P .. 'conf'
call('HSETNX', conf, 'schema', SCHEMA)
call('HSETNX', conf, 'min_writer', SCHEMA)
call('HSETNX', conf, 'partitions', ARGV[1])
local lanes = call('HGET', conf, 'lanes') or ''
if ARGV[2] ~= '' then call('HSETNX', conf, 'signing_key', ARGV[2]) end
for i = 3, #ARGV do
  if not string.find(',' .. lanes .. ',', ',' .. ARGV[i] .. ',', 1, true) then
    lanes = lanes == '' and ARGV[i] or (lanes .. ',' .. ARGV[i])
  end
end
call('HSET', conf, 'lanes', lanes) -- also what makes this script a probe that writes works
return { tonumber(call('HGET', conf, 'schema')), tonumber(call('HGET', conf, 'partitions')),
  call('HGET', conf, 'signing_key') or '' }
