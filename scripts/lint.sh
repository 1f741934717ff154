#!/usr/bin/env bash
# Checks the style of the sources; changes nothing.
#
# usage: lint.sh [format|web|tidy|all]...     without a word: format and web
#   format   clang-format, on C++ and on bpf/ by its own style (ctest's test `format`)
#   web      prettier and eslint
#   tidy     clang-tidy on the files of build/compile_commands.json; takes many minutes
set -euo pipefail
cd "$(dirname "$0")/.."

check_format() {
  if ! command -v clang-format >/dev/null; then
    echo "lint.sh: skipped: clang-format is missing; run scripts/install-deps.sh lint" >&2
    exit 77
  fi
  find userspace bpf tests -name workloads -prune -o \( -name '*.cc' -o -name '*.h' -o -path 'bpf/*.c' \) -print0 |
    xargs -0 -n 20 -P "$(nproc)" clang-format --dry-run -Werror
}

check_web() {
  for check in format:check lint; do
    if grep -q "\"$check\":" web/package.json; then npm --prefix web run --silent "$check"; fi
  done
}

check_tidy() {
  if [ ! -e .clang-tidy ]; then
    echo "lint.sh: there is no .clang-tidy" >&2
    exit 1
  fi
  # Without precompiled headers: clang-tidy reads those of neither compiler.
  mkdir -p build/tidy
  sed -E 's/ -Winvalid-pch| -fpch-preprocess|( -Xclang)? -include(-pch)?( -Xclang)? [^ ]*cmake_pch\.hxx(\.gch|\.pch)?//g' \
    build/compile_commands.json >build/tidy/compile_commands.json
  find userspace -name '*.cc' -print0 | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/tidy
}

[ $# -gt 0 ] || set -- format web
for part in "$@"; do
  case "$part" in
    format) check_format ;;
    web) check_web ;;
    tidy) check_tidy ;;
    all) check_format; check_web; check_tidy ;;
    *) echo "usage: lint.sh [format|web|tidy|all]..." >&2; exit 2 ;;
  esac
done
