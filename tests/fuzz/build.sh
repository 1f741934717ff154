#!/usr/bin/env bash
# Builds what `ctest -R 'fuzz|unit-sanitized'` runs: the library with clang, ASan, UBSan and coverage, the fuzz targets and the
# unit tests on it, in a build directory of their own.
#
# usage: tests/fuzz/build.sh [--slice] [BUILD]
#   --slice   what scripts/test.sh runs: not optimised, and without the rooms that need a recorder, a server or a command line
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=(fuzzers unit_tests)
options=()
if [ "${1:-}" = --slice ]; then
  targets=(fuzzers reader_unit_tests)
  options=(-DCOWPROF_FUZZ_OPTIMIZATION=-O0 -DCOWPROF_FUZZ_SLICE=ON)
  shift
fi
build=${1:-build/fuzz}
mkdir -p "$build"
if [ ! -e "$build/build.ninja" ]; then
  cmake --preset fuzz "${options[@]}" -B "$build" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
fi
. scripts/compiler-memory.sh
TIMEFORMAT="build.sh: %1R s, of CPU time %1U + %1S s"
time cmake --build "$build" --target "${targets[@]}"
