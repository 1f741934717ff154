#!/usr/bin/env bash
# Builds the tool at build/cowprof, with its tests. Called by demo.sh and test.sh; by hand after scripts/install-deps.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
[ -e build/build.ninja ] || cmake -S . -B build -G Ninja >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
cmake --build build
