#!/usr/bin/env bash
# Usage: run.sh TOOL DIRECTORY. Makes a real recording, its page and its report with TOOL, and tests the page in headless Chromium.
# Without root there is no real recording, and only the tests on synthetic data run.
set -euo pipefail
cowprof=$(realpath "$1")
out=$2
export COWPROF_TOOL=$cowprof
COWPROF_BUILD=$(dirname "$cowprof")
export COWPROF_BUILD
cd "$(dirname "$0")/../../web"
mkdir -p "$out"
if [ "$(id -u)" -eq 0 ]; then
  # Two epochs, however slow the machine is: the second one's workers are others.
  /usr/bin/python3 ../tests/system/dataloader.py --items 100000 --epochs 2 --batches 250 --seconds 60 >"$out/training.log" 2>&1 &
  trainer=$!
  /usr/bin/python3 ../tests/web/recordings.py "$out/same" &
  recordings=$!
  # The hang is found some 2 s after the fork; its mark stands apart from that of the child's end.
  { sleep 6; echo; } | "$cowprof" --quiet --output "$out/hang.json" -- \
    /usr/bin/python3 ../tests/system/workloads/fork_hangs.py passed_on_rlock >/dev/null &
  hang=$!
  rm -f "$out/alerts"
  printf '#!/bin/sh\ncat >>"%s/alerts"\n' "$(realpath "$out")" >"$out/hook"
  chmod 755 "$out/hook"
  "$cowprof" --attach $trainer --quiet --interval 200ms --alert-at 1% --on-alert "$(realpath "$out")/hook" --output "$out/timeline.json"
  "$cowprof" view "$out/timeline.json" -o "$out/timeline.html" >/dev/null
  "$cowprof" report "$out/timeline.json" --json >"$out/report.json"
  "$cowprof" report "$out/timeline.json" >"$out/report.txt"
  wait $recordings
  mkdir -p "$out/same/loader"
  for file in timeline.html report.json report.txt alerts; do ln "$out/$file" "$out/same/loader/$file"; done
  names=../tests/system/workloads/hostile_names.py
  /usr/bin/python3 $names --list >"$out/hostile.names"
  # It waits for a line until cowprof knows its interpreter: it takes a third of a second, which a busy machine may need.
  { sleep 2; echo; } | "$cowprof" --quiet --every-copy --output "$out/hostile.json" -- \
    /usr/bin/python3 $names '<script>globalThis.pwned=1</script>' >/dev/null
  "$cowprof" view "$out/hostile.json" -o "$out/hostile.html" >/dev/null
  wait $hang
  "$cowprof" view "$out/hang.json" -o "$out/hang.html" >/dev/null
  "$cowprof" report "$out/hang.json" --json >"$out/hang_report.json"
  export COWPROF_HANG_PAGE=$out/hang.html COWPROF_HANG_REPORT=$out/hang_report.json
  export COWPROF_HOSTILE_PAGE=$out/hostile.html COWPROF_HOSTILE_NAMES=$out/hostile.names
  /usr/bin/python3 ../tests/web/fleet.py "$cowprof" "$out/fleet"
  export COWPROF_FLEET=$out/fleet
  export COWPROF_MARKDOWN=$out/timeline.json:$out/hostile.json
  export COWPROF_PAGE=$out/timeline.html COWPROF_REPORT=$out/report.json COWPROF_SAME=$out/same
fi
npm --silent test
