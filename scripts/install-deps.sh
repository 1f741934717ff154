#!/usr/bin/env bash
# Installs Debian packages, and nothing from the network if they are all there. The page's npm packages come with the build.
#
# usage: install-deps.sh [SET...]
#   tool      to build cowprof and its page (the default)
#   packages  tool, and what scripts/package.sh makes packages with
#   demo      tool, and what scripts/demo.sh trains with
#   build     tool, and what its tests are built with
#   tests     build, demo, and what scripts/test.sh runs
#   lint      what scripts/lint.sh runs
set -euo pipefail
cd "$(dirname "$0")/.."

tool=(build-essential cmake ninja-build pkg-config clang bpftool libbpf-dev libelf-dev libseccomp-dev libdeflate-dev
  libabsl-dev nlohmann-json3-dev libcli11-dev libprotozero-dev nodejs)
packaging=("${tool[@]}" buildah dpkg-dev git)
demo=("${tool[@]}" python3 python3-torch)
build=("${tool[@]}" catch2 zlib1g-dev)
# clang-format: the test `format`. golang-go: pprof. llvm: symbols in the reports of sanitizers.
tests=("${build[@]}" "${demo[@]}" clang-format lld llvm libclang-rt-dev python3-pytest python3-pytest-xdist python3-exceptiongroup python3-tomli python3-lxml mypy python3-jsonschema python3-psutil python3-pyte linux-perf chromium-headless-shell protobuf-compiler golang-go
  python3-pandas python3-h5py python3-lmdb python3-joblib gunicorn python3-ipykernel python3-setproctitle celery redis-server postgresql puma perl php-cli pypy3 r-base-core procps util-linux passwd strace libcap2-bin qemu-system-x86 e2fsprogs
  debootstrap zsh fish man-db mandoc uwsgi-core uwsgi-plugin-python3 openmpi-bin slurmctld slurmd slurm-client munge prometheus prometheus-alertmanager prometheus-node-exporter
  buildah dpkg-dev git podman runc lintian systemd unzip python3-venv python3-yaml)
lint=(clang-format clang-tidy nodejs)

packages=()
for set in "${@:-tool}"; do
  case "$set" in
    tool) packages+=("${tool[@]}") ;;
    packages) packages+=("${packaging[@]}") ;;
    demo) packages+=("${demo[@]}") ;;
    build) packages+=("${build[@]}") ;;
    tests) packages+=("${tests[@]}") ;;
    lint) packages+=("${lint[@]}") ;;
    *) echo "usage: install-deps.sh [tool|packages|demo|build|tests|lint]..." >&2; exit 2 ;;
  esac
done

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
  # RUNLEVEL: services that come with packages of the tests are not started (invoke-rc.d).
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
  apt-get update -q >/dev/null || echo "install-deps: apt-get update failed; trying with the lists that are here" >&2
  apt-get install -qy --no-install-recommends "${missing[@]}" >/dev/null
fi
