# Completion of `manage.py locks` for bash, printed by `manage.py locks completion bash`.
# Whatever else completes manage.py or python goes on doing so for other commands.

__redis_locks_complete() {
  # bash splits words at colons and equals signs, which names and options have: put them together again.
  local word typed before=() COMPREPLIED
  local line="${COMP_LINE:0:COMP_POINT}"
  read -r -a before <<<"$line"
  [[ $line == *[[:space:]] ]] && before+=("")
  local at
  for ((at = 1; at < ${#before[@]}; at++)); do
    [[ ${before[at]} == locks && ${before[at - 1]} == *manage.py ]] && break
  done
  if ((at >= ${#before[@]} - 1)); then
    local other="${__redis_locks_others[${1##*/}]-}"
    [[ -n $other ]] && declare -F "$other" >/dev/null && "$other" "$@"
    return
  fi
  typed="${before[${#before[@]} - 1]}"
  local command=("${before[@]:0:at}")
  command=("${command[@]/#\~\//$HOME/}")
  local cut=""
  # What bash takes for the word is what follows the last colon or equals sign.
  [[ $typed == *[:=]* && $COMP_WORDBREAKS == *[:=]* ]] && cut="${typed%"${typed##*[:=]}"}"
  while IFS=$'\t' read -r word _; do
    printf -v word %q "$word"
    COMPREPLY+=("${word#"$cut"}")
  done < <("${command[@]}" locks completion --words "${before[@]:at + 1}" 2>/dev/null </dev/null)
}

declare -gA __redis_locks_others
__redis_locks_take() {
  local name other
  for name in manage.py python python3; do
    other="$(complete -p "$name" 2>/dev/null)"
    if [[ $other =~ \ -F\ ([^ ]+) && ${BASH_REMATCH[1]} != __redis_locks_complete ]]; then
      __redis_locks_others[$name]="${BASH_REMATCH[1]}"
    fi
    complete -o bashdefault -o default -F __redis_locks_complete "$name"
  done
}
__redis_locks_take
