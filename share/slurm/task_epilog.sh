#!/bin/sh
# TaskEpilog of Slurm: says in the job's log why a task that task_prolog.sh records needs a look. What it writes to stderr goes there.
[ -n "$COWPROF_DIR" ] && [ -n "$SLURM_STEP_ID" ] || exit 0
name=$COWPROF_DIR/$SLURM_JOB_ID.$SLURM_STEP_ID-$SLURM_PROCID
[ -f "$name.pid" ] || exit 0
read -r recorder <"$name.pid"
# The recording ends with the task.
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
  kill -0 "$recorder" 2>/dev/null || break
  sleep 0.1
done
rm -f "$name.pid"
[ -s "$name.log" ] && sed "s/^/rank $SLURM_PROCID: /" "$name.log" >&2 || rm -f "$name.log"
[ -s "$name.json" ] || exit 0
sentence=$("${COWPROF:-cowprof}" report "$name.json" 2>&1 | head -n 1)
case $sentence in
  "Nothing to do: "*) ;;  # "Nothing to do in the first 31 s (...): ..." is said
  *) echo "cowprof, rank $SLURM_PROCID on ${SLURMD_NODENAME:-this node}: $sentence ($name.json)" >&2 ;;
esac
exit 0
