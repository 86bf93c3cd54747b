# Completion of `manage.py locks` for zsh, printed by `manage.py locks completion zsh`.
# Whatever else completes manage.py or python goes on doing so for other commands.

_redis_locks() {
  local -a command found given
  local at=${words[(i)locks]} line
  if (( at >= CURRENT )) || [[ ${words[at - 1]} != *manage.py ]]; then
    local other=${_redis_locks_others[${words[1]:t}]-}
    if [[ -n $other ]]; then "$other" "$@"; else _files; fi
    return
  fi
  command=(${(Q)~words[1,at - 1]})
  given=(${(Q)words[at + 1,CURRENT - 1]} "${(Q)PREFIX}")
  for line in ${(f)"$("${command[@]}" locks completion --words "${given[@]}" 2>/dev/null </dev/null)"}; do
    found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#found )); then _describe 'locks' found; else _files; fi
}

typeset -gA _redis_locks_others
_redis_locks_take() {
  local name
  for name in manage.py python python3; do
    [[ ${_comps[$name]-} == (|_redis_locks) ]] || _redis_locks_others[$name]=${_comps[$name]}
    compdef _redis_locks $name
  done
}
_redis_locks_take
