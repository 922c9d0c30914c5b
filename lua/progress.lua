-- Shows how far running attempts are, each by its token's holder only; the latest value wins.
--
-- KEYS  1 prefix
-- ARGV  1 a batch, per job 3: id, token, progress (JSON)
-- Returns  how many of the tokens still hold their jobs
local jobs = batch(1, 3)
if not jobs then return redis.error_reply('ERR progress takes a batch of 3 values a job') end
for i = 1, #jobs do
  for at = 1, 3 do
    if type(jobs[i][at]) ~= 'string' then return redis.error_reply('ERR progress: id, token and progress are texts') end
  end
end
local held = 0
local ids = {}
for i = 1, #jobs do ids[i] = jobs[i][1] end
read_lines(ids)
for i = 1, #jobs do
  local id, token, progress = unpack(jobs[i])
  if is_held(id, token) then
    call('HSET', P .. 'j:' .. id, 'progress', progress)
    held = held + 1
  end
end
return held
