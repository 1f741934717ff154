#!/usr/bin/env bash
# Records tests/fixtures/python/NAME.txt from the interpreters that are named or, if none is, from all installed ones:
# Debian's, and pyenv's if there are any. Each runs in a neutral folder under a neutral name, so that no local path gets
# into a fixture.
#
# usage: record-python-fixtures.sh RECORD_PYTHON [NAME=PYTHON...]     as in: build/record_python 3.14=/tmp/p/python3.14
set -euo pipefail
record=$(realpath "${1:?usage: record-python-fixtures.sh RECORD_PYTHON [NAME=PYTHON...]}")
shift
fixtures=$(cd "$(dirname "$0")/../tests/fixtures/python" && pwd)
folder=/tmp/x
mkdir "$folder"  # fails if somebody uses it
trap 'rm -rf "$folder"' EXIT
cp -r "$fixtures/workload/." "$folder"
cd "$folder"

run() {  # NAME PYTHON
  env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$record" "$fixtures/$1.txt" "$2" -B -s sample.py
}

pythons=("$@")
if [ $# -eq 0 ]; then
  pythons=("debian=/usr/bin/python3")
  for versions in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*; do
    [ -x "$versions/bin/python3" ] && pythons+=("$(basename "$versions")=$versions")
  done
fi
for python in "${pythons[@]}"; do
  name=${python%%=*} path=${python#*=}
  if [ -d "$path" ]; then
    # An interpreter's folder: run it through a neutral link, from which it derives the paths of its library.
    ln -sfn "$path" "$folder/python"
    path=$folder/python/bin/python3
  fi
  run "$name" "$path"
done
if grep -lF -e "$HOME" -e "$fixtures" "$fixtures"/*.txt; then
  echo "record-python-fixtures: these files contain a local path" >&2
  exit 1
fi
