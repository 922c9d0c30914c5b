-- Notes that all that a process knows of is registered in this partition, so that claims take jobs from it, and gives its
-- data a name: another one later says that what was here is gone.
--
-- KEYS  1 prefix
-- ARGV  1 the name, if there is none yet
-- Returns  the name
local LONG_BYTES = 65 -- of a value, one more than a server keeps in such a list by default (`hash-max-listpack-value`)
if #ARGV ~= 1 or ARGV[1] == '' then return redis.error_reply('ERR register: epoch') end
-- gone since configure ran: so are the limits that were written after it
if not conf[1] then return redis.error_reply('GWEMPTY the data was lost while limits were being registered') end
-- as long as it is short, a HASH of short values is searched from its front
call('HSETNX', P .. 'state', '~', string.rep('~', LONG_BYTES))
if call('HSETNX', P .. 'conf', 'epoch', ARGV[1]) == 1 then drop_gist() end
return call('HGET', P .. 'conf', 'epoch')
