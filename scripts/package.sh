#!/usr/bin/env bash
# Makes all packages of one build, the static one: a wheel, a .deb, a tarball, an OCI image, and SHA256SUMS. The same sources
# give the same bytes: all times are those of the last commit. Needs scripts/install-deps.sh packages.
#
# usage: package.sh [FOLDER]     dist/, if none is named
#   DEBFULLNAME and DEBEMAIL name the .deb's maintainer.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
for program in dpkg-deb buildah ninja; do
  command -v $program >/dev/null || { echo "package.sh: $program is missing; run: sudo scripts/install-deps.sh packages" >&2; exit 1; }
done
# In a container the clone is often another user's than root's.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$PWD" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

# ---- One release build ----
options='^(COWPROF_(SANITIZE|FUZZ|FILTER_KILLS)|CMAKE_BUILD_TYPE):'
if [ -e build/CMakeCache.txt ] && other=$(grep -E "$options" build/CMakeCache.txt | grep -vE '=(OFF|RelWithDebInfo)$'); then
  echo "package.sh: build/ is not a release build: ${other//$'\n'/, }; run:" \
    "cmake --preset release -DCOWPROF_SANITIZE=OFF -DCOWPROF_FUZZ=OFF -DCOWPROF_FILTER_KILLS=OFF" >&2
  exit 1
fi
scripts/build.sh static >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
cp build/cowprof_static "$work/cowprof"
packaging/licences.py build >"$work/THIRD-PARTY"
version=$("$work/cowprof" --version | cut -d ' ' -f 2)
name=cowprof-$version

# ---- What a distribution expects: $root is the .deb's ----
place() { install -D -m "$1" "$2" "$root/$3"; }
# Places what the binary prints: from_binary PATH WORD...
from_binary() {
  if ! "$work/cowprof" "${@:2}" </dev/null >"$work/printed" || [ ! -s "$work/printed" ]; then
    echo "package.sh: cowprof ${*:2} failed, which should print $1" >&2
    exit 1
  fi
  place 644 "$work/printed" "$1"
}
place 755 "$work/cowprof" usr/bin/cowprof
for unit in cowprof@ cowprof-watch; do place 644 packaging/$unit.service lib/systemd/system/$unit.service; done
place 644 packaging/lintian-overrides usr/share/lintian/overrides/cowprof
from_binary usr/share/man/man1/cowprof.1 --man
gzip -9n "$root/usr/share/man/man1/cowprof.1"
for shell in bash:bash-completion/completions/cowprof zsh:zsh/vendor-completions/_cowprof fish:fish/vendor_completions.d/cowprof.fish; do
  from_binary "usr/share/${shell#*:}" completions "${shell%%:*}"
done
for file in cowprof.sql prometheus/{cowprof.rules,cowprof.rules_test,prometheus,alertmanager}.yml grafana/cowprof.json kubernetes/{daemonset,sidecar,debug}.yaml systemd/metrics.conf; do
  place 644 share/$file usr/share/cowprof/$file
done
for script in task_prolog task_epilog; do place 755 share/slurm/$script.sh usr/share/cowprof/slurm/$script.sh; done
place 755 scripts/checkpoint-on-alert.sh usr/share/cowprof/hooks/checkpoint-on-alert.sh
documents=usr/share/doc/cowprof
maintainer="${DEBFULLNAME:-cowprof maintainers} <${DEBEMAIL:-maintainers@cowprof.invalid}>"
printf 'cowprof (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' \
  "$version" "$maintainer" "$(date -R -d "@$SOURCE_DATE_EPOCH")" >"$work/changelog"
{
  printf 'cowprof\n\nCopyright: the authors of cowprof\nLicense: Apache-2.0, in /usr/share/common-licenses/Apache-2.0\n\n'
  cat "$work/THIRD-PARTY"
} >"$work/copyright"
# The pages that messages and rules name, beside each other as their links expect.
pages=(README.md SKILL.md THREATS.md SECURITY.md CONTRIBUTING.md docs schema)
place 644 "$work/copyright" $documents/copyright
cp -r "${pages[@]}" "$root/$documents"
find "$root/$documents" -type f -exec chmod 644 {} +
place 644 CHANGELOG.md $documents/changelog
place 644 "$work/changelog" $documents/changelog.Debian
gzip -9n "$root/$documents"/changelog*

# ---- .deb ----
architecture=$(dpkg --print-architecture)
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: cowprof
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Section: devel
Priority: optional
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)
Description: copy-on-write memory growth profiler
 Attaches to a program that forks workers, counts the pages that they copy, and
 says which lines and types of Python copy them, how far it will go, and what
 to change. The program is not restarted, stopped or changed.
END
install -m 755 packaging/{postinst,prerm,postrm} "$root/DEBIAN"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$folder/cowprof_$version-1_$architecture.deb" >/dev/null

# ---- Wheel ----
packaging/wheel.py "$version" "$work/cowprof" "$folder" LICENSE "$work/THIRD-PARTY" >/dev/null

# ---- Tarball ----
mkdir -p "$work/$name"
cp -r "$root/usr/bin" "$root/usr/share" "$work/$name"
rm -r "$work/$name/share/doc" "$work/$name/share/lintian"
cp -r "${pages[@]}" LICENSE CHANGELOG.md "$work/THIRD-PARTY" packaging/cowprof*.service "$work/$name"
archive() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$1" -cf - "${@:2}"; }
archive "$work" "$name" | gzip -9n >"$folder/$name-linux-$(uname -m).tar.gz"

# ---- OCI image: the binary and nothing else ----
install -D "$work/cowprof" "$work/image/usr/bin/cowprof"
cp LICENSE "$work/THIRD-PARTY" "$work/image"
# A store of its own: the user's images are left alone.
buildah() { command buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
printf 'FROM scratch\nCOPY . /\nENV PATH=/usr/bin\nWORKDIR /out\nCMD ["cowprof", "--help"]\nLABEL org.opencontainers.image.version=%s org.opencontainers.image.licenses=Apache-2.0\n' \
  "$version" >"$work/Containerfile"
buildah bud --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --tag "cowprof:$version" -f "$work/Containerfile" "$work/image" >/dev/null
buildah push --quiet "cowprof:$version" "oci:$work/oci:cowprof:$version" >/dev/null
archive "$work/oci" . >"$folder/$name-linux-$(uname -m).oci.tar"

cd "$folder"
sha256sum -- *"$version"*.whl *"$version"*.deb *"$version"*.tar.gz *"$version"*.oci.tar >SHA256SUMS
stat --printf '%12s  %n\n' -- *"$version"*
