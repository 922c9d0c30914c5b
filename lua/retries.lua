-- Prepended, after the endings, to the scripts that end attempts: a failed one that is tried again later.

local function retry_later(id, job, delay_ms, error)
  log(id, log_line('retrying', job.attempt, of_attempt(job) .. ',"delay_ms":' .. text(delay_ms) .. (error ~= '' and (',"error":' .. error) or '')))
  job.status, job.previous, job.updated = 'retrying', text(delay_ms), NOW
  save(id, job)
  stand('retrying', job.lane, 1)
  local t = target_node(job.target)
  unspend(job.target, job.key, t and t.ordered == 1 and id or nil)
  call('ZADD', P .. 'due', now_us + delay_ms * 1000, id)
  bump('retried', job.lane, job.target)
  if job.callback ~= '' then notify(id, job, 'retrying', '', '', error, delay_ms) end
  if followed then tell('retrying', id, job.lane, job.target, job.attempt, text(delay_ms)) end
  return 'retrying'
end
