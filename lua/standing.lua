-- Prepended to the scripts that look at how the work goes on: is there work that nobody takes?

-- Dispatchers whose loops turned within `window` ms; ms that the first ready job of any lane has waited that is not
-- paused; us that the first due job is late.
local function standing(window)
  local waited = 0
  for i = 1, #LANES do
    if not lane_paused(LANES[i]) then waited = math.max(waited, waited_ms(LANES[i])) end
  end
  local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
  local late_us = first[1] and math.max(0, now_us - tonumber(first[2])) or 0
  return { call('ZCOUNT', P .. 'beats', text(now_ms - window), '+inf'), waited, late_us }
end
