#!/usr/bin/env bash
# Installs what building, testing and the demo need: Debian packages, and the page's npm packages. Asks the network only for what is
# missing, so that it also works offline once everything is there. Called by demo.sh and test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(build-essential cmake ninja-build pkg-config clang llvm bpftool libbpf-dev libelf-dev libmicrohttpd-dev libseccomp-dev zlib1g-dev libabsl-dev
  nlohmann-json3-dev libcli11-dev catch2 nodejs python3 python3-torch)
if [ "${1:-}" = tests ]; then
  packages+=(libclang-rt-dev python3-pytest python3-jsonschema python3-psutil python3-pyte linux-perf chromium python3-pandas procps util-linux passwd
    strace libcap2-bin qemu-system-x86 e2fsprogs)
fi

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
missing=()
for package in "${packages[@]}"; do
  # Node may come from elsewhere than Debian.
  if [ "$package" = nodejs ] && command -v node >/dev/null && command -v npm >/dev/null; then continue; fi
  installed "$package" || missing+=("$package")
done
# Debian's nodejs has npm in a package of its own; other builds of Node bring it.
for package in "${missing[@]}"; do [ "$package" = nodejs ] && missing+=(npm); done

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "install-deps: missing ${missing[*]}; run: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "install-deps: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null || echo "install-deps: apt-get update failed; trying with the lists that are here" >&2
  apt-get install -qy --no-install-recommends "${missing[@]}" >/dev/null
fi
