#!/usr/bin/env bash
# Installs what is missing, builds, and runs a slice of every kind of test; says what runs and how long each part took.
#
# usage: test.sh [--all] [ctest's options]     as in: test.sh -R '^(unit|web)$'
#   --all   everything: the slow system tests, long fuzzing, more kernels (docs/testing.md); takes hours
set -euo pipefail
cd "$(dirname "$0")/.."
options=()
if [ "${1:-}" = --all ]; then
  options=(-C all)
  shift
fi
if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_UID:-}" ]; then
  caller=$SUDO_UID:$SUDO_GID
  trap 'scripts/give-back.sh "$caller"' EXIT
  # cowprof would act as the caller, who may not write where the tests of root do. Tests set these where they need them.
  unset SUDO_UID SUDO_GID SUDO_USER SUDO_COMMAND
  # By SUDO_UID git lets root read the caller's clone; now it takes this.
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD
fi
start=$SECONDS
# What only running them needs is large: it comes while they are built. Who is not root learns at once what is missing.
if [ "$(id -u)" -eq 0 ]; then scripts/install-deps.sh build; else scripts/install-deps.sh tests; fi
installed=$SECONDS
# In a process group of its own, since bash would start it with SIGINT ignored: what ends this script also ends apt-get,
# which holds dpkg's lock.
set -m
scripts/install-deps.sh tests < /dev/null &
rest=$!
set +m
stop() {
  kill -INT -- "-$rest" || true
  wait
  exit "$1"
} 2> /dev/null
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
scripts/build.sh tests || { wait; exit 1; }
wait "$rest"
trap - HUP INT TERM
# Four at a time, however many CPUs there are: two lanes, which wait more than they compute, and what takes idle time only.
/usr/bin/python3 scripts/run-ctest.py --part "install=$((installed - start))" --part "build=$((SECONDS - installed))" -- \
  --test-dir build --output-on-failure --timeout 3000 -j 4 "${options[@]}" "$@"
