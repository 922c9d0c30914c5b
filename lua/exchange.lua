-- A settle, and then a claim by the same dispatcher: what each promises by itself (lua/settle.lua, lua/claim.lua), begun once.
-- What the settle wrote stays where the claim comes to an error.
--
-- KEYS  1 prefix
-- ARGV  1 and 2 as a settle takes them, 3 and on as a claim does
-- Returns  1 what the settle returns, 2 what the claim does
return function()
  local all = args
  local own = { unpack(all, 3) }
  args = own
  local fault = read_args()
  args = all
  local settled
  if not fault then settled, fault = settle_all() end
  if fault then return fault end
  commit()
  begin_anew()
  args = own
  local given = claim_read()
  commit()
  forget_taken()
  return given.err and given or { settled, given }
end
