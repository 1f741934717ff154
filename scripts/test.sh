#!/usr/bin/env bash
# Installs, builds and runs every test: unit, then the page in a real browser, then real processes (as root). Slow parts last.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh tests
scripts/build.sh
exec ctest --test-dir build --output-on-failure "$@"
