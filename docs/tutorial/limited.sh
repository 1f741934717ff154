#!/bin/sh
# Runs a program with a limit on its memory, as a container does: in a cgroup of version 1, or of version 2 where that has the memory
# controller. Needs root.
#
# usage: limited.sh BYTES CMD ARGS...     BYTES may end with K, M or G
set -eu
bytes=$1
shift
own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
if [ -n "$own" ]; then
  group=/sys/fs/cgroup/memory${own%/}/tutorial-$$
  limit=memory.limit_in_bytes
else
  group=/sys/fs/cgroup/tutorial-$$
  limit=memory.max
fi
mkdir "$group"
echo "$bytes" >"$group/$limit"
# Nor may it swap, which would slow it down instead of ending it.
if [ -e "$group/memory.swap.max" ]; then
  echo 0 >"$group/memory.swap.max"
elif [ -e "$group/memory.memsw.limit_in_bytes" ]; then
  echo "$bytes" >"$group/memory.memsw.limit_in_bytes"
elif [ -e "$group/memory.swappiness" ]; then
  echo 0 >"$group/memory.swappiness"
fi
status=0
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" || status=$?
# Workers notice that the trainer has gone within 5 seconds.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rmdir "$group" 2>/dev/null && break
  sleep 1
done
exit $status
