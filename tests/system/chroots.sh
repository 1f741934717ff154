#!/usr/bin/env bash
# Makes a root file system of a Debian suite: trixie and sid with their Python and torch, for tests/system/test_modern_torch.py;
# bullseye and bookworm with a Python that makes venvs, for tests/packages. Uses the mirror that apt is configured with, and
# installs nothing on the machine. As root.
#
# usage: chroots.sh [--check] [SUITE...]     trixie, sid and bullseye, if none is named
#   --check   make nothing: say which are there; status 1 if one is not
#
# They lie in COWPROF_CHROOTS, or in COWPROF_BUILD/chroots (build/chroots). One that is there is left as it is; remove its
# folder to have it made again. Status 77: it can't be made here, and the last line says why.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
folder=${COWPROF_CHROOTS:-${COWPROF_BUILD:-$repository/build}/chroots}
check=
if [ "${1:-}" = --check ]; then
  check=1
  shift
fi
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(trixie sid bullseye)

if [ "$check" ]; then
  status=0
  for suite in "${suites[@]}"; do
    if [ -d "$folder/$suite" ]; then echo "chroots: $folder/$suite is there"; else echo "chroots: $folder/$suite is missing"; status=1; fi
  done
  exit $status
fi

cannot() {
  echo "chroots: $*" >&2
  exit 77
}

missing=()
for suite in "${suites[@]}"; do [ -d "$folder/$suite" ] || missing+=("$suite"); done
[ ${#missing[@]} -gt 0 ] || exit 0

[ "$(id -u)" -eq 0 ] || cannot "only root can make ${missing[*]}"
command -v debootstrap >/dev/null || cannot "debootstrap is missing; run: sudo scripts/install-deps.sh tests"
# The first archive from which apt takes packages of this release, excluding security and updates.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(CREATED_BY)' |
  awk '$2 == "main" && $3 == "Packages" && $1 ~ /\/debian\/?$/ { print $1; exit }')
[ "$mirror" ] || cannot "apt has no Debian archive configured; add one to its sources list"

# Says each step of debootstrap, and how far the long ones are.
progress() {
  awk -v suite="$1" '
    /^I: / { sub(/^I: /, ""); if (number[$1]++ % 100 == 0) { print "chroots: " suite ": " $0; fflush() } }'
}

# A folder of another name until it is complete. What debootstrap mounts ends with its namespace, however it ends.
make_one() {
  local suite=$1 packages probe
  case $suite in
    bullseye | bookworm) packages=python3,python3-venv probe="import sys, ensurepip; print(\"chroots: Python\", sys.version.split()[0])" ;;
    *) packages=python3,python3-numpy,python3-torch
      probe="import sys, torch; print(\"chroots: Python\", sys.version.split()[0], \"torch\", torch.__version__)" ;;
  esac
  local target=$folder/$suite making=$folder/.$suite.making log=$folder/$suite.log started=$SECONDS kib
  exec 9> "$folder/.$suite.lock"
  flock --nonblock 9 || { echo "chroots: $suite is being made by another process; waiting for it"; flock 9; }
  [ ! -d "$target" ] || return 0
  rm -rf --one-file-system "$making"
  echo "chroots: making $target from $mirror"
  # It has the lock as well: if only this script is killed, the next one waits for it.
  unshare --mount --propagation private debootstrap --variant=minbase --include="$packages" \
    "$suite" "$making" "$mirror" 2>&1 | tee "$log" | progress "$suite" ||
    cannot "debootstrap can't make $suite: $(grep -E '^(E|W|dpkg): |^wget: ' "$log" | tail -1) (see $log)"
  kib=$(du -sk "$making/var/cache/apt/archives" | cut -f 1)
  rm -rf "$making"/var/cache/apt/archives/*.deb "$making"/var/lib/apt/lists/*
  # shellcheck disable=SC2016 # $1 and $2 are the inner shell's
  unshare --mount --propagation private sh -c 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" &&
    exec chroot "$1" python3 -c "$2"' \
    sh "$making" "$probe" 2>> "$log" || cannot "the Python of $suite does not work: $(tail -1 "$log") (see $log)"
  mv -T "$making" "$target"
  echo "chroots: made $target in $((SECONDS - started)) s: $((kib / 1024)) MiB of packages, $(du -sm "$target" | cut -f 1) MiB on disk"
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# debootstrap calls wget, whose own patience is 20 tries of 15 minutes.
export WGETRC=$folder/.wgetrc
printf 'tries = 3\ntimeout = 30\n' > "$WGETRC"
for suite in "${missing[@]}"; do make_one "$suite"; done
