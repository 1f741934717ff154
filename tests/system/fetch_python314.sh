#!/usr/bin/env bash
# Fetches Debian's Python 3.14 and the C library that it needs, and unpacks both into a folder; installs nothing. Uses
# the mirror that apt is configured with. For trying a CPython that Debian 12 does not have; no test runs it, because it
# needs the network.
#
# usage: fetch_python314.sh FOLDER [SUITE]     then: FOLDER/python3.14 -c 'print(1)'
set -euo pipefail
folder=${1:?usage: fetch_python314.sh FOLDER [SUITE]}
suite=${2:-sid}
version=${COWPROF_PYTHON:-3.14}
packages=("python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" libc6 libexpat1 zlib1g libssl3t64
  libffi8 libbz2-1.0 liblzma5 libzstd1 libuuid1 libncursesw6 libtinfo6 libreadline8t64 libsqlite3-0 libgcc-s1)

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
apt_dir=$folder/.apt
mkdir -p "$apt_dir"/{state/lists/partial,cache/archives/partial,sources.d}
: > "$apt_dir/status"

# The first archive from which apt takes packages of this release, excluding security and updates.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(CREATED_BY)' |
  awk '$2 == "main" && $3 == "Packages" && $1 ~ /\/debian\/?$/ { print $1; exit }')
if [ -z "$mirror" ]; then
  echo "fetch_python314: apt has no Debian archive configured; add one to its sources list" >&2
  exit 1
fi
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror $suite main" > "$apt_dir/sources.list"

apt=(apt-get -q -o "Dir::Etc::sourcelist=$apt_dir/sources.list" -o "Dir::Etc::sourceparts=$apt_dir/sources.d"
  -o "Dir::State=$apt_dir/state" -o "Dir::State::status=$apt_dir/status" -o "Dir::Cache=$apt_dir/cache"
  -o APT::Sandbox::User=root)
"${apt[@]}" update
cd "$apt_dir/cache/archives"
"${apt[@]}" download "${packages[@]}"
for package in ./*.deb; do dpkg-deb -x "$package" "$folder/files"; done

# Start the interpreter through the unpacked dynamic loader, so that it uses only the unpacked libraries.
root=$folder/files
loader=$(find "$root" -name 'ld-linux-x86-64.so.2' ! -type d | head -1)
libraries=$(dirname "$(find "$root" -name 'libc.so.6' | head -1)")
cat > "$folder/python$version" <<END
#!/bin/sh
export PYTHONHOME="$root/usr"
exec "$loader" --argv0 "\$0" --library-path "$libraries:$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/python$version" "\$@"
END
chmod +x "$folder/python$version"
"$folder/python$version" -c 'import sys; print("fetched", sys.version)'
