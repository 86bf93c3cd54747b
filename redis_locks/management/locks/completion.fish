# Completion of `manage.py locks` for fish, printed by `manage.py locks completion fish`.
# It adds to whatever else completes manage.py or python.

function __redis_locks_at
    set -l words (commandline -opc)
    set -l at (contains -i -- locks $words)
    and test $at -gt 1
    and string match -q -- '*manage.py' $words[(math $at - 1)]
    and echo $at
end

function __redis_locks_candidates
    set -l words (commandline -opc)
    set -l at (__redis_locks_at)
    set -l given
    test $at -lt (count $words)
    and set given $words[(math $at + 1)..-1]
    set -l run $words[1..(math $at - 1)]
    $run locks completion --words $given (commandline -ct) 2>/dev/null </dev/null
end

for name in manage.py python python3
    complete -c $name -n 'test -n "$(__redis_locks_at)"' -f -a '(__redis_locks_candidates)'
end
