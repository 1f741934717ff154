#!/bin/sh
# For --on-alert: sends the trainer SIGUSR1, to make it write a checkpoint, when memory is about to run out (docs/alerts.md).
# Ignores other alerts, such as descriptors. SIGUSR1 would kill a trainer without a handler, so that is checked first.
case "$COWPROF_ALERT_KIND" in
	cgroup-v1 | cgroup-v2 | host | shm | address-space | mappings | commit) ;;
	*) exit 0 ;;
esac

# SigCgt is a mask of the signals that the process handles; SIGUSR1 is number 10, so bit 9.
handles() {
	caught=$(awk '/^SigCgt:/ { print $2 }' "/proc/$1/status" 2> /dev/null)
	case "${caught#?????????????}" in
		[2367abefABEF]??) return 0 ;;
	esac
	return 1
}

# Other programs do other things on SIGUSR1.
is_python() {
	case "$(readlink "/proc/$1/exe")" in
		*/python[0-9.]* | */python | */pypy*) return 0 ;;
	esac
	return 1
}

# kill is the shell's own: slim images have no /bin/kill.
if handles "$COWPROF_PID"; then
	kill -USR1 "$COWPROF_PID"
	exit
fi
# torchrun, a shell script or `uv run` does not: the nearest below it that do are the trainer, or its ranks. What they have
# forked handles the signal as they do, and is not asked.
level=$COWPROF_PID
for _ in 1 2 3 4; do
	children='' trainers=''
	for pid in $level; do
		children="$children $(cat "/proc/$pid/task/"*/children 2> /dev/null)"
	done
	for pid in $children; do
		if is_python "$pid" && handles "$pid"; then trainers="$trainers $pid"; fi
	done
	if [ -n "$trainers" ]; then
		# shellcheck disable=SC2086  # a list
		kill -USR1 $trainers
		exit
	fi
	level=$children
done
exit 1
