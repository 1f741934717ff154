#!/usr/bin/env bash
# Builds the tool, with its page, at build/cowprof. Needs what scripts/install-deps.sh installs for the same word.
#
# usage: build.sh [tool|static|tests]
#   static   one static binary of the same objects, at build/cowprof_static
#   tests    also the unit tests and the workloads of the system tests
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-tool}" in
  tool) tests=OFF target=cowprof ;;
  static) tests=OFF target=cowprof_static ;;
  tests) tests=ON target=all ;;
  *) echo "usage: build.sh [tool|static|tests]" >&2; exit 2 ;;
esac
mkdir -p build
for path in build build/.ninja_log; do
  if [ -e $path ] && [ ! -w $path ]; then
    echo "build.sh: $path belongs to $(stat -c %U $path), so $(id -un) can't build here; run: sudo scripts/give-back.sh $(id -u):$(id -g)" >&2
    exit 1
  fi
done
# A build directory with tests stays one: the tool alone is a target of it.
if [ ! -e build/build.ninja ] || { [ $tests = ON ] && ! grep -q '^COWPROF_TESTS:BOOL=ON' build/CMakeCache.txt; }; then
  cmake --preset release -DCOWPROF_TESTS=$tests >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
fi
. scripts/compiler-memory.sh
TIMEFORMAT="build.sh: %1R s, of CPU time %1U + %1S s"
time cmake --build build --target $target
