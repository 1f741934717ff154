#!/usr/bin/env bash
# Usage: pictures.sh TOOL DIRECTORY [--update]. Records a training with TOOL, makes pictures of its page and its live screen, and compares
# what they show with docs/images; --update replaces those. Needs root.
set -euo pipefail
cowprof=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")"

# The recording is made under names that a reader may see.
if [ -z "${COWPROF_PICTURED:-}" ]; then
  COWPROF_PICTURED=1 unshare --mount --uts --cgroup ./pictures.sh "$cowprof" "$out"
  "$cowprof" view "$out/pictures.json" -o "$out/pictures.html" >/dev/null
  [ "${3:-}" = --update ] && export COWPROF_UPDATE=1
  COWPROF_PICTURES=$out exec node --test pictures.mjs
fi
hostname trainer
mount -t tmpfs tmpfs /mnt
mount -t tmpfs tmpfs /dev/shm
cp ../system/dataloader.py /mnt/train.py
/usr/bin/python3 /mnt/train.py --items 300000 --epochs 9 >"$out/pictures.log" 2>&1 &
trainer=$!
trap 'kill $trainer 2>/dev/null || true' EXIT
until grep -q '"start"' "$out/pictures.log"; do
  kill -0 $trainer
  sleep 0.1
done
rm -f "$out/pictures.json"
record="exec '$cowprof' --attach $trainer --live --interval 250ms --duration 10s --output '$out/pictures.json'"
TERM=xterm-256color SHELL=/bin/sh script -qefc "stty columns 100 rows 24; $record" "$out/pictures.typescript" </dev/null >/dev/null
