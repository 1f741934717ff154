#!/usr/bin/env bash
# Builds web/dist/template.html. Needs the network only once, to install packages from npm. Builds in other folders (the fuzz
# targets') ask for it again: it stays if it is newer than all that it is made of, since the web tests read it.
set -euo pipefail
cd "$(dirname "$0")/../web"
exec 9<../scripts/build-page.sh
flock 9
if [ -e dist/template.html ] && [ -z "$(find src tools package.json package-lock.json index.html vite.config.mjs "../scripts/build-page.sh" -newer dist/template.html -print -quit)" ]; then
  exit 0
fi
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --prefer-offline --no-audit --no-fund
  touch node_modules/.package-lock.json
fi
npm run --silent build
touch dist/template.html
