-- Reads whole records, each as it stands at one instant.
--
-- KEYS  1 prefix
-- ARGV  ids
-- Returns  per job 6: fields and values of its HASH (empty: no such job), body, result, log, due us, callback's status
local out = {}
for i = 1, #ARGV do
  local id = ARGV[i]
  local fields = call('HGETALL', P .. 'j:' .. id)
  local callback = call('HGET', P .. 'j:' .. id, 'callback_id')
  out[#out + 1] = fields
  out[#out + 1] = call('GET', P .. 'b:' .. id) or ''
  out[#out + 1] = call('GET', P .. 'r:' .. id) or ''
  out[#out + 1] = call('GET', P .. 'e:' .. id) or ''
  out[#out + 1] = call('ZSCORE', P .. 'due', id) or ''
  out[#out + 1] = callback and call('HGET', P .. 'j:' .. callback, 'status') or ''
end
return out
