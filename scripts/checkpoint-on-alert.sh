#!/bin/sh
# For --on-alert: sends the trainer SIGUSR1, to make it write a checkpoint, when memory is about to run out (docs/alerts.md).
# Ignores other alerts, such as descriptors. SIGUSR1 would kill a trainer without a handler, so that is checked first.
case "$COWPROF_ALERT_KIND" in
	cgroup-v1 | cgroup-v2 | host | shm) ;;
	*) exit 0 ;;
esac
# SigCgt is a mask of the signals that the process handles; SIGUSR1 is number 10, so bit 9.
caught=$(awk '/^SigCgt:/ { print $2 }' "/proc/$COWPROF_PID/status")
case "${caught#?????????????}" in
	[2367abefABEF]??) exec kill -USR1 "$COWPROF_PID" ;;
esac
exit 1
