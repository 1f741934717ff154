#!/usr/bin/env bash
# Shows cowprof on a real PyTorch training run: installs what is missing, builds the tool and its page, trains for half a minute with
# two DataLoader workers over Python dicts, and records it. Leaves demo/timeline.json, demo/timeline.html and the report in words.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p demo
trainer='' caller=''
if [ "$(id -u)" -eq 0 ]; then caller=${SUDO_UID:+$SUDO_UID:$SUDO_GID}; fi
finish() {
  if [ -n "$trainer" ]; then kill "$trainer" 2>/dev/null || true; fi
  if [ -n "$caller" ]; then scripts/give-back.sh "$caller"; fi
}
trap finish EXIT
# Under sudo cowprof writes as the user who called it.
if [ -n "$caller" ]; then chown -R "$caller" demo; fi
scripts/install-deps.sh tool
# PyTorch is large: it comes while the tool is built.
scripts/install-deps.sh demo >demo/install.log 2>&1 &
torch=$!
scripts/build.sh tool
wait $torch || { cat demo/install.log >&2; exit 1; }
if [ "$(id -u)" -ne 0 ]; then
  echo "demo: cowprof needs root for its probes; run: sudo scripts/demo.sh" >&2
  exit 4
fi

if [ -e demo/timeline.json ]; then mv demo/timeline.json demo/timeline.json.old; fi
/usr/bin/python3 tests/system/dataloader.py --items 1000000 --epochs 3 --seconds 30 --recorded-by demo/timeline.json >demo/training.log 2>&1 &
trainer=$!
echo "demo: training started (pid $trainer), building its data set; its output is in demo/training.log"
# "ready" comes when the data set stands. The workers are forked once the recording has begun.
until grep -q '"ready"' demo/training.log; do
  kill -0 $trainer 2>/dev/null || { cat demo/training.log >&2; echo "demo: the training ended too early" >&2; exit 1; }
  sleep 0.1
done
build/cowprof --attach $trainer --live --output demo/timeline.json
build/cowprof view demo/timeline.json -o demo/timeline.html >/dev/null
echo "demo: open demo/timeline.html in a browser"
