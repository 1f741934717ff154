#!/bin/sh
# For --on-alert: asks the trainer to write a checkpoint, by SIGUSR1, when memory is about to run out. See docs/alerts.md.
# Descriptors and the like are no reason; a trainer that does not handle SIGUSR1 would be killed by it: it is asked first.
case "$COWPROF_ALERT_KIND" in
	cgroup-v1 | cgroup-v2 | host | shm) ;;
	*) exit 0 ;;
esac
# SigCgt: a mask of the signals that the process handles; SIGUSR1 is number 10, bit 9.
caught=$(awk '/^SigCgt:/ { print $2 }' "/proc/$COWPROF_PID/status")
case "${caught#?????????????}" in
	[2367abefABEF]??) exec kill -USR1 "$COWPROF_PID" ;;
esac
exit 1
