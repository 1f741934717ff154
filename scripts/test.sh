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
start=$SECONDS
scripts/install-deps.sh tests
installed=$SECONDS
scripts/build.sh tests
# Four at a time, however many CPUs there are: of those that count on having a CPU to themselves only one runs, and
# beside it what takes idle time only.
exec /usr/bin/python3 scripts/run-ctest.py --part "install=$((installed - start))" --part "build=$((SECONDS - installed))" -- \
  --test-dir build --output-on-failure -j 4 "${options[@]}" "$@"
