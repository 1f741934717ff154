#!/usr/bin/env bash
# Builds web/dist/template.html. Needs the network only once, to install packages from npm.
set -euo pipefail
cd "$(dirname "$0")/../web"
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --prefer-offline --no-audit --no-fund
  touch node_modules/.package-lock.json
fi
npm run --silent build
touch dist/template.html
