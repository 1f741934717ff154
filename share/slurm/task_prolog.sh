#!/bin/sh
# TaskProlog of Slurm: records each task of the jobs that set COWPROF_DIR, a folder that all nodes see.
#
#   slurm.conf:  TaskProlog=/etc/slurm/task_prolog.sh     TaskEpilog=/etc/slurm/task_epilog.sh
#   the job:     export COWPROF_DIR=$PWD/cowprof; srun python3 train.py
#
# It runs as the job's owner, before the task's program. Slurm waits for it, and reads what it prints.
[ -n "$COWPROF_DIR" ] && [ -n "$SLURM_STEP_ID" ] && [ -n "$SLURM_TASK_PID" ] || exit 0
mkdir -p "$COWPROF_DIR" || exit 0
name=$COWPROF_DIR/$SLURM_JOB_ID.$SLURM_STEP_ID-$SLURM_PROCID
# A job that is requeued has the same name as before.
[ ! -f "$name.json" ] || mv -f "$name.json" "$name.json.old"
# In --output a percent sign is written twice.
output=$(printf '%s.json\n' "$name" | sed 's/%/%%/g')
setsid "${COWPROF:-cowprof}" --attach "$SLURM_TASK_PID" --quiet --output "$output" </dev/null >/dev/null 2>"$name.log" &
echo $! >"$name.pid"
# It follows the program from its first instruction if it is there by then.
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  [ -s "$name.json" ] || ! kill -0 $! 2>/dev/null && break
  sleep 0.1
done
exit 0
