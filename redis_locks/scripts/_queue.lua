-- Shared start of the scripts that touch the queue, after `_prelude.lua`.

-- The locks that the waiter `waiter` of `name` wants, all or none; nil if nobody knows any more.
local function wanted(name, waiter, size)
  if size == 1 then
    return { name }
  end
  local locks = redis.call("LRANGE", SET .. waiter, 0, -1)
  return #locks > 0 and locks or nil
end

-- Take a waiter out of the queues of all its locks.
local function leave(locks, waiter)
  redis.call("HDEL", WAITS, session(waiter))
  if #locks > 1 then
    redis.call("DEL", SET .. waiter)
  end
  for _, name in ipairs(locks) do
    redis.call("LREM", QUEUE .. name, 1, waiter)
    redis.call("HDEL", CLAIMS .. name, waiter)
  end
end

-- Whether the waiter stands first everywhere and every lock has room for it.
local function fits(locks, waiter, mode)
  for _, name in ipairs(locks) do
    if #locks > 1 and redis.call("LINDEX", QUEUE .. name, 0) ~= waiter then
      return false
    end
    if not room(name, mode) then
      return false
    end
  end
  return true
end

-- Grant the locks to those who stand first in queue, as far as there is room. The message is
-- the grant: by the time a waiter reads it, it is a holder. A dead waiter, one whose channel
-- has no listener, is dropped. Returns the fencing token if the caller itself, `token`, was
-- granted: it learns of it from the reply instead.
local function settle(locks)
  local own
  local todo = {}
  for i, name in ipairs(locks) do
    todo[i] = name
  end
  while #todo > 0 do
    local name = table.remove(todo)
    while true do
      local first = redis.call("LINDEX", QUEUE .. name, 0)
      if not first then
        if redis.call("EXISTS", HOLDER .. name, SHARERS .. name) == 0 then
          redis.call("ZREM", index, name)
        end
        break
      end
      local claim = redis.call("HGET", CLAIMS .. name, first) or ""
      local _, _, mode, lease, channel, give_up_at, size, who = string.match(claim, CLAIM)
      local all = mode and wanted(name, first, tonumber(size))
      local living = all and (first == token or give_up_at == "0" or tonumber(give_up_at) > clock())
      local from = living and upgraded(mode)
      if from and not shares(name, from) then
        living = false
      end
      if living and not fits(all, first, mode) then
        -- The dead must not keep those behind them from sharing.
        if first == token or exclusive(name) or redis.call("PUBSUB", "NUMSUB", channel)[2] > 0 then
          break
        end
        living = false
      end
      if living then
        local fence = next_fence(all, clock() + lease)
        if first == token then
          own = fence
        else
          living = redis.call("PUBLISH", channel, first .. " " .. fence .. " " .. text(now)) > 0
        end
        if living then
          leave(all, first)
          hold(all, first, fence, mode, tonumber(lease), channel, who)
          if mode == "exclusive" or from then
            break
          end
        end
      end
      if not living then
        leave(all or { name }, first)
      end
      if all and #all > 1 then
        -- Its going may have left somebody first in the other queues.
        for _, other in ipairs(all) do
          if other ~= name then
            todo[#todo + 1] = other
          end
        end
      end
    end
  end
  return own
end

-- Who stands in the way, as "now ends claim": something may change by itself at `ends`. The
-- claim is empty if nobody does.
local function obstacle(locks)
  for _, name in ipairs(locks) do
    local holder, claim = exclusive(name)
    local ends
    if holder then
      ends = redis.call("PEXPIRETIME", HOLDER .. name)
    elseif sharers(name) > 0 then
      local soonest = redis.call("ZRANGE", SHARERS .. name, 0, 0, "WITHSCORES")
      claim, ends = redis.call("HGET", CLAIMS .. name, soonest[1]), tonumber(soonest[2])
    end
    if not ends then
      -- Nobody holds it; whoever stands first waits for another lock as well.
      local first = redis.call("LINDEX", QUEUE .. name, 0)
      if first and first ~= token then
        claim, ends = redis.call("HGET", CLAIMS .. name, first), clock() + WAITER_KEPT_MS
      end
    end
    if ends then
      return table.concat({ text(clock()), text(ends), claim or "" }, " ")
    end
  end
  return text(clock()) .. " 0 "
end
