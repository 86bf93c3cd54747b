-- Of acquire: say what was granted, or what is in the way.

if heir then
  return token .. " 1 " .. granted
elseif answer then
  return token .. " " .. answer
end
