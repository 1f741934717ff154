#!/usr/bin/env bash
# Builds what `ctest -R 'fuzz|unit-sanitized'` runs: the library with clang, ASan, UBSan and coverage, the fuzz targets and the
# unit suite on it, in a directory of their own. Called by ctest; by hand before run.py.
#   tests/fuzz/build.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/fuzz}
mkdir -p "$build"
[ -e "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -DCOWPROF_FUZZ=ON -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER=clang \
  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_FLAGS=-gline-tables-only ${COWPROF_COMPILER_CACHE:+-DCMAKE_CXX_COMPILER_LAUNCHER=$COWPROF_COMPILER_CACHE} \
  >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --target fuzzers unit_tests
